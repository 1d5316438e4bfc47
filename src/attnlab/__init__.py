"""Change one thing about attention and find out, with evidence, what it does to GPT-2.

Importing this package is cheap on purpose: nothing heavy is imported here, so that `attnlab --help` answers at once.
"""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("attnlab")
