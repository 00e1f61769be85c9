"""Captures what XLA's TPU compiler makes of a JAX function or an HLO module, for `tpusim run FOLDER`."""

TRIED_VERSIONS = {"jax": "0.10.2", "libtpu": "0.0.42.1"}
"""The versions whose listings tpusim's reader was written for and checked with."""
