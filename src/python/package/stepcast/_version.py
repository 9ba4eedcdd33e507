# tools/release puts the version of the release here.
__version__ = "0.0.0"
