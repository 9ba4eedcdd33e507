"""The rule cuda_library: CUDA sources, compiled with nvcc, as a C++ library.

Use it for sources with device code. A library that only calls CUDA or NCCL is a plain
cc_library with `@cuda//:runtime`, `@cuda//:nccl` or `@cuda//:cublas_lt` in its deps. What
depends on either is skipped unless `--config=cuda` is given.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@cuda//:toolkit.bzl", "MISSING", "NVCC")

# GPU generations: A100, H100 and H200, B200.
_ARCHITECTURES = ["80", "90", "100"]

_FLAGS = [
    "-std=c++20",
    "-O2",
    "-DNDEBUG",
    "-Werror",
    "all-warnings",
    "-Xcompiler",
    "-fPIC,-Wall,-Wextra,-Werror",
    "-c",
]

def _compile(ctx, source, context):
    # The extension comes second: x.cu and x.cc may be in one package.
    object = ctx.actions.declare_file("_objs/%s/%s.o" % (ctx.label.name, source.basename))
    arguments = ctx.actions.args()
    arguments.add_all(_FLAGS)
    for architecture in _ARCHITECTURES:
        arguments.add("-gencode=arch=compute_{0},code=sm_{0}".format(architecture))
    arguments.add_all(context.defines, before_each = "-D")
    arguments.add_all(context.quote_includes, before_each = "-I")
    arguments.add_all(context.includes, before_each = "-I")
    arguments.add_all(context.system_includes, before_each = "-isystem")
    arguments.add("-o", object)
    arguments.add(source)
    ctx.actions.run(
        executable = NVCC,
        arguments = [arguments],
        # nvcc starts the host compiler by name.
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin"},
        inputs = depset(
            [source] + ctx.files._toolkit,
            transitive = [context.headers],
        ),
        outputs = [object],
        mnemonic = "CudaCompile",
        progress_message = "Compiling %s with nvcc" % source.short_path,
    )
    return object

def _cuda_library_impl(ctx):
    if MISSING:
        fail("CUDA is asked for, but " + MISSING)
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )

    # What dependents see, and what the sources see: the same headers.
    own = cc_common.create_compilation_context(
        headers = depset(ctx.files.hdrs),
        quote_includes = depset([".", ctx.bin_dir.path]),
    )
    infos = [dependency[CcInfo] for dependency in ctx.attr.deps]
    context = cc_common.merge_cc_infos(
        direct_cc_infos = [CcInfo(compilation_context = own)],
        cc_infos = infos,
    ).compilation_context

    objects = depset([_compile(ctx, source, context) for source in ctx.files.srcs])
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = objects,
            pic_objects = objects,
        ),
        linking_contexts = [info.linking_context for info in infos],
        disallow_dynamic_library = True,
    )
    return [
        CcInfo(compilation_context = context, linking_context = linking_context),
        DefaultInfo(files = objects),
    ]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_toolkit": attr.label(default = "@cuda//:version_files"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cuda_library(name, deps = [], **kwargs):
    """A library of CUDA sources.

    Args:
      name: the target's name.
      deps: C++ libraries; `@cuda//:runtime` is always among them.
      **kwargs: srcs (.cu), hdrs (.h, .cuh), and what every rule has.
    """
    _cuda_library(
        name = name,
        deps = deps + ["@cuda//:runtime"],
        target_compatible_with = select({
            "//third_party/cuda:enabled": [],
            "//conditions:default": ["//third_party/cuda:enabled_only"],
        }),
        **kwargs
    )
