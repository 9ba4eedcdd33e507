"""A unit test beside its source."""

# What a test needs that asks for shipped models, machines and profiles by name.
SHIPPED = [
    "//calibration:data",
    "//models:data",
    "//topologies:data",
]

def unit_test(name, deps = [], **kwargs):
    """A cc_test with googletest, of NAME.cc unless `srcs` says otherwise."""
    native.cc_test(
        name = name,
        srcs = kwargs.pop("srcs", [name + ".cc"]),
        deps = deps + ["@googletest//:gtest", "@googletest//:gtest_main"],
        **kwargs
    )
