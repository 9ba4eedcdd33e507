"""Libraries whose sources compile together."""

# How many sources compile together at most. More read the same headers less often; fewer leave no core
# idle while the last ones compile, and compile faster again after a change.
_TOGETHER = 12

def _combined_source_impl(ctx):
    source = ctx.actions.declare_file(ctx.label.name)
    files = ctx.actions.args()
    files.add(source)
    files.add_all(ctx.files.srcs)
    ctx.actions.run_shell(
        inputs = ctx.files.srcs,
        outputs = [source],
        arguments = [files],
        command = """
source=$1
shift
for file; do
  printf '#line 1 "%s"\\n' "$file"
  cat "$file"
done >"$source"
""",
    )
    return [DefaultInfo(files = depset([source]))]

# The texts of some sources in one, with the names of their files for the compiler's messages.
_combined_source = rule(
    implementation = _combined_source_impl,
    attrs = {"srcs": attr.label_list(allow_files = [".cc"])},
)

def combined_library(name, srcs, copts = [], **kwargs):
    """A cc_library whose sources compile as one source. docs/decisions.md says why."""
    sources = [source for source in srcs if source.endswith(".cc")]
    parts = (len(sources) + _TOGETHER - 1) // _TOGETHER
    combined = ["%s_combined_%d.cc" % (name, part + 1) for part in range(parts)]
    for part in range(parts):
        _combined_source(
            name = combined[part],
            srcs = sources[part * len(sources) // parts:(part + 1) * len(sources) // parts],
        )
    native.cc_library(
        name = name,
        srcs = combined + [header for header in srcs if header not in sources],
        # gcc takes what #line names for a header, and warns of members whose types are the file's own.
        copts = copts + ["-Wno-subobject-linkage"],
        **kwargs
    )
