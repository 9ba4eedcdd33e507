"""Finds the CUDA toolkit and NCCL on this machine, and makes them a repository."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

# The files whose change means another toolkit, for the rules that call nvcc.
filegroup(
    name = "version_files",
    srcs = glob(["include/cuda.h", "include/nccl.h"]),
)

cc_library(
    name = "runtime",
    hdrs = glob(
        [
            "include/*.h",
            "include/*.hpp",
            "include/crt/**",
            # cuda_fp16.h includes <nv/target>, which CUDA 13 keeps below cccl/.
            "include/nv/**",
            "include/cccl/nv/**",
        ],
        exclude = ["include/nccl*.h"],
    ),
    includes = [
        "include",
        "include/cccl",
    ],
    linkopts = [
        "-L{library_folder}",
        "-lcudart_static",
        "-ldl",
        "-lrt",
        "-lpthread",
    ],
    target_compatible_with = {compatible},
)

cc_library(
    name = "cublas_lt",
    linkopts = [
        "-L{library_folder}",
        "-lcublasLt",
        "-Wl,-rpath,{library_folder}",
    ],
    target_compatible_with = {compatible},
    deps = [":runtime"],
)

cc_library(
    name = "nccl",
    hdrs = glob(["{nccl_header_folder}/nccl*.h"]),
    includes = ["{nccl_header_folder}"],
    linkopts = [
        "-L{nccl_library_folder}",
        "-lnccl",
        "-Wl,-rpath,{nccl_library_folder}",
    ],
    target_compatible_with = {compatible},
    deps = [":runtime"],
)
"""

_COMPATIBLE = """select({
        "@stepcast//third_party/cuda:enabled": [],
        "//conditions:default": ["@stepcast//third_party/cuda:enabled_only"],
    })"""

def _library_folder(repository_ctx, root, names):
    """The first folder below root that holds one of the libraries, or None."""
    for folder in ["lib64", "lib", "lib/x86_64-linux-gnu"]:
        for name in names:
            if repository_ctx.path(root + "/" + folder + "/" + name).exists:
                return root + "/" + folder
    return None

def _find_nccl(repository_ctx, toolkit):
    """Returns (header folder, library folder) of NCCL, or None."""
    roots = [repository_ctx.os.environ.get("NCCL_PATH"), toolkit, "/usr/local", "/usr"]
    for root in roots:
        if root and repository_ctx.path(root + "/include/nccl.h").exists:
            libraries = _library_folder(repository_ctx, root, ["libnccl.so"])
            if libraries:
                return root + "/include", libraries
    return None

def _cuda_toolkit_impl(repository_ctx):
    toolkit = repository_ctx.os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    nvcc = toolkit + "/bin/nvcc"
    missing = ""
    libraries = None
    nccl = None
    if not repository_ctx.path(nvcc).exists:
        missing = "there is no %s; set CUDA_PATH to the toolkit's folder" % nvcc
    else:
        libraries = _library_folder(repository_ctx, toolkit, ["libcudart_static.a"])
        nccl = _find_nccl(repository_ctx, toolkit)
        if not libraries:
            missing = "there is no libcudart_static.a in %s" % toolkit
        elif not nccl:
            missing = "found no nccl.h with libnccl.so; set NCCL_PATH to NCCL's folder"

    nccl_header_folder = "include"
    if not missing:
        repository_ctx.symlink(toolkit + "/include", "include")
        if nccl[0] != toolkit + "/include":
            # Symlinks file by file: all of /usr/include must not come along.
            nccl_header_folder = "nccl_include"
            for header in repository_ctx.path(nccl[0]).readdir():
                if header.basename.startswith("nccl") and header.basename.endswith(".h"):
                    repository_ctx.symlink(header, nccl_header_folder + "/" + header.basename)

    # `missing` travels on to the rules, so that `bazel build //...` works without a
    # toolkit and only `--config=cuda` complains.
    repository_ctx.file("BUILD", _BUILD.format(
        compatible = _COMPATIBLE,
        library_folder = libraries or "",
        nccl_header_folder = nccl_header_folder,
        nccl_library_folder = nccl[1] if nccl else "",
    ))
    repository_ctx.file("toolkit.bzl", "NVCC = %r\nMISSING = %r\n" % (nvcc, missing))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit_impl,
    doc = "The toolkit at $CUDA_PATH or /usr/local/cuda, with NCCL from there, $NCCL_PATH or /usr.",
    configure = True,
    environ = [
        "CUDA_PATH",
        "NCCL_PATH",
    ],
    local = True,
)
