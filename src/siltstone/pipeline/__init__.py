"""Pipelines: steps from a small file, run on Spark one after another, each applied once."""

from siltstone.pipeline.file import Pipeline, load_pipeline, parse_pipeline
from siltstone.pipeline.run import Outcome, Report, run_pipeline

__all__ = ["Outcome", "Pipeline", "Report", "load_pipeline", "parse_pipeline", "run_pipeline"]
