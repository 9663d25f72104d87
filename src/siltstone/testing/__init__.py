"""The kit that siltstone is proved with, for proving what you build beside it.

``stores`` (FaultStore, Interleaves) and ``registries`` (FaultRegistry) make faults happen where you say;
``store_suite``, ``log_suite`` and ``registry_suite`` are conformance suites to subclass; ``s3server`` is an S3
server that misbehaves as told; ``sim`` (extra ``siltstone[testing]``) plays seeds. See docs/testing.md.
"""
