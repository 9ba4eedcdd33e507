"""A second C++ toolchain beside the default one, so that both can be used in turn."""

load("@bazel_tools//tools/cpp:cc_configure.bzl", "cc_autoconf_impl")

def _clang_toolchain_impl(repository_ctx):
    clang = repository_ctx.which("clang")
    if not clang:
        fail("clang is not installed; `tools/setup --dev` installs it")
    cc_autoconf_impl(repository_ctx, overriden_tools = {"gcc": str(clang)})

# Bazel's own way to choose a compiler, CC, configures the one toolchain anew each time
# the choice changes. This rule configures clang as a toolchain of its own, chosen with
# --crosstool_top.
clang_toolchain = repository_rule(
    implementation = _clang_toolchain_impl,
    configure = True,
    environ = ["PATH"],
)
