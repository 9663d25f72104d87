"""What can be said on the command line, one module for each theme.

What must hold: nothing here needs more than the standard library, so that help, versions, complaints and completion
come at once. What a verb does is named by text, ``module.function`` below ``siltstone.cli``, and loaded when it runs.
"""
