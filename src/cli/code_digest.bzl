"""A digest of the code that answers come from."""

def _code_digest_impl(ctx):
    files = {}
    for dep in ctx.attr.deps:
        for linked in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linked.libraries:
                files[library.pic_static_library or library.static_library] = True
    source = ctx.actions.declare_file(ctx.label.name + ".cc")
    names = ctx.actions.args()
    names.add_all(files.keys())
    names.set_param_file_format("multiline")
    names.use_param_file("%s", use_always = True)
    ctx.actions.run_shell(
        inputs = files.keys(),
        outputs = [source],
        arguments = [source.path, names],
        command = """
digest=$(xargs cat <"$2" | sha256sum | cut -d ' ' -f 1)
cat >"$1" <<END
#include "src/cli/code_digest.h"

namespace stepcast::cli {

const char* CodeDigest() { return "$digest"; }

}  // namespace stepcast::cli
END
""",
    )
    return [DefaultInfo(files = depset([source]))]

# Numbers may change from build to build without a change of the version, and two programs, stepcast
# and stepcast-hardware, give the same: what tells builds apart are the compiled
# libraries that both link.
code_digest_source = rule(
    implementation = _code_digest_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
