"""The C++ toolchain that Bazel configures by itself, with the standard library precompiled."""

load("@bazel_tools//tools/cpp:cc_configure.bzl", "cc_autoconf_impl")

# What gcc holds a precompiled header to, of the options that sources are compiled with: .bazelrc and
# Bazel's own. Where they differ, as with sanitizers, it leaves the header out without a word, and a
# build takes a third longer; -Winvalid-pch among a source's options says why.
_FLAGS = [
    "-fPIC",
    "-std=c++20",
    "-O2",
    "-g0",
    "-Wpedantic",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=1",
    "-DNDEBUG",
    "-fstack-protector",
    "-fno-omit-frame-pointer",
    "-ffunction-sections",
    "-fdata-sections",
]

# gcc looks for memory that it no longer needs when it has taken 128 MiB, of which the precompiled header
# takes more than half. To look when it has taken 512 MiB, which few sources do, saves a tenth of the time of
# the larger ones.
_COLLECT = "--param=ggc-min-heapsize=524288"

_PRECOMPILED = """
# The header itself is empty, so that where gcc does not take what is precompiled, nothing is included.
genrule(
    name = "precompiled",
    srcs = ["standard_library.h"],
    outs = [
        "precompiled/standard_library.h",
        "precompiled/standard_library.h.gch",
    ],
    cmd = "touch $(location precompiled/standard_library.h) && " +
          "/usr/bin/gcc -x c++-header {flags} $< -o $(location precompiled/standard_library.h.gch)",
)

filegroup(
    name = "compiler_inputs",
    srcs = [
        ":compiler_deps",
        ":precompiled",
    ],
)
"""

def _gcc_toolchain_impl(repository_ctx):
    header = repository_ctx.path(Label("//third_party/gcc:standard_library.h"))
    cc_autoconf_impl(repository_ctx)
    repository_ctx.symlink(header, "standard_library.h")
    build = repository_ctx.read("BUILD")

    # Where Bazel builds what a toolchain consists of: "exec-" and a hash of the platform's name.
    cpu = build.split("|compiler\"")[0].split("\"")[-1]
    folder = "bazel-out/" + cpu + "-opt-exec-2B5CBBC6/bin/external/gcc/precompiled"
    execution_root = str(repository_ctx.path(".").dirname.dirname) + "/execroot/stepcast"
    changes = {
        "compiler_files = \":compiler_deps\"": "compiler_files = \":compiler_inputs\"",
        "cxx_builtin_include_directories = [": "cxx_builtin_include_directories = [\"%s/%s\", " % (
            execution_root,
            folder,
        ),
        "cxx_flags = [": "cxx_flags = [\"%s\", \"-include\", \"%s/standard_library.h\", " % (_COLLECT, folder),
    }
    for old, new in changes.items():
        if old not in build:
            fail("Bazel's own C++ toolchain is not as expected: no " + old)
        build = build.replace(old, new, 1)
    repository_ctx.file("BUILD", build + _PRECOMPILED.format(flags = " ".join(_FLAGS)))

# Sources spend a quarter of their time in headers that nearly all of them include. gcc reads those
# once (standard_library.h), and starts each source from there. A source still includes what it uses:
# other compilers, such as that of --config=clang, have nothing precompiled.
gcc_toolchain = repository_rule(
    implementation = _gcc_toolchain_impl,
    configure = True,
    environ = ["PATH", "CC"],
)
