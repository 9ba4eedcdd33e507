"""A unity build: the sources of a package compile together, as a few sources that include them."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# How many sources compile together at most. More read the same headers less often; fewer leave no core
# idle while the last ones compile.
_TOGETHER = 12

OwnLibraries = provider(
    doc = "What a C++ library of this workspace consists of, with those that it depends on.",
    fields = {
        "libraries": "A depset of structs: the library's label, its sources and its other files.",
        "kept": "A depset of what is linked as it is, as linker inputs: libraries of other workspaces, those whose " +
                "sources are generated, have options of their own or are no C++, and those tagged no-unity.",
    },
)

_Compiled = provider(
    doc = "Which libraries a unity build has compiled.",
    fields = {"labels": "A depset of their labels, with those of the unity libraries that it builds on."},
)

def _stands_alone(rule):
    if rule.kind != "cc_library" or "no-unity" in rule.attr.tags:
        return True
    generated = [file for file in rule.files.srcs if not file.is_source]
    return rule.attr.local_defines or rule.attr.copts or rule.attr.linkopts or generated

def _own_libraries_impl(target, ctx):
    inputs = target[CcInfo].linking_context.linker_inputs
    if target.label.workspace_name:
        return [OwnLibraries(libraries = depset(), kept = inputs)]
    deps = [dep[OwnLibraries] for dep in getattr(ctx.rule.attr, "deps", []) if OwnLibraries in dep]
    own = []
    kept = []
    if _stands_alone(ctx.rule):
        kept = [linked for linked in inputs.to_list() if linked.owner == target.label]
    else:
        own = [struct(
            label = target.label,
            sources = tuple([file for file in ctx.rule.files.srcs if file.extension == "cc"]),
            headers = tuple([file for file in ctx.rule.files.srcs if file.extension != "cc"] + ctx.rule.files.hdrs),
        )]
    return [OwnLibraries(
        libraries = depset(own, transitive = [dep.libraries for dep in deps]),
        kept = depset(kept, transitive = [dep.kept for dep in deps], order = "topological"),
    )]

own_libraries = aspect(
    implementation = _own_libraries_impl,
    attr_aspects = ["deps"],
)

def _parts(sources):
    count = (len(sources) + _TOGETHER - 1) // _TOGETHER
    return [
        sources[part * len(sources) // count:(part + 1) * len(sources) // count]
        for part in range(count)
    ]

def _unity_library_impl(ctx):
    compiled = {}
    for library in ctx.attr.builds_on:
        for label in library[_Compiled].labels.to_list():
            compiled[label] = True

    packages = {}
    files = []
    for dep in ctx.attr.deps:
        for library in dep[OwnLibraries].libraries.to_list():
            files.extend(library.sources)
            if library.label in compiled:
                continue
            compiled[library.label] = True
            packages.setdefault(library.label.package, []).extend([file.path for file in library.sources])

    sources = []
    for package in sorted(packages):
        for number, part in enumerate(_parts(sorted(packages[package]))):
            # .bazelrc has options for rooms, which it knows by this path.
            room = package[len("src/"):]
            source = ctx.actions.declare_file("unity/%s/%s_%d.cc" % (room, ctx.label.name, number + 1))
            ctx.actions.write(source, "".join(['#include "%s"\n' % path for path in part]))
            sources.append(source)

    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        # A part includes what its sources do, whose libraries depend on different ones.
        unsupported_features = ctx.disabled_features + ["layering_check", "parse_headers"],
    )
    how = {
        "actions": ctx.actions,
        "feature_configuration": features,
        "cc_toolchain": toolchain,
        "name": ctx.label.name,
    }
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    contexts.append(cc_common.create_compilation_context(headers = depset(files)))
    context, outputs = cc_common.compile(srcs = sources, compilation_contexts = contexts, **how)
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        compilation_outputs = outputs,
        linking_contexts = [
            cc_common.create_linking_context(
                linker_inputs = depset(transitive = [dep[OwnLibraries].kept for dep in ctx.attr.deps]),
            ),
        ] + [library[CcInfo].linking_context for library in ctx.attr.builds_on],
        disallow_dynamic_library = True,
        # Libraries that are kept may need it, which come behind it for the linker.
        alwayslink = True,
        **how
    )
    return [
        CcInfo(compilation_context = context, linking_context = linking),
        _Compiled(labels = depset(compiled.keys())),
    ]

# `deps`, with all of this workspace that they depend on, as one library, compiled package by package. What
# unity libraries that it `builds_on` have compiled is taken from there. docs/decisions.md says why.
unity_library = rule(
    implementation = _unity_library_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo], aspects = [own_libraries]),
        "builds_on": attr.label_list(providers = [CcInfo, _Compiled]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
