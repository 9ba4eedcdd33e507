# tools/release replaces this by the release's version.
__version__ = "0.0.0"
