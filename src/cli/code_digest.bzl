"""A digest of the code that answers come from."""

def _code_digest_impl(ctx):
    libraries = []
    inputs = depset(transitive = [dep[CcInfo].linking_context.linker_inputs for dep in ctx.attr.deps])
    for linked in inputs.to_list():
        for library in linked.libraries:
            libraries.append(library.pic_static_library or library.static_library)
    source = ctx.actions.declare_file(ctx.label.name + ".cc")
    ctx.actions.run_shell(
        inputs = libraries,
        outputs = [source],
        arguments = [source.path] + [library.path for library in libraries],
        command = """
source=$1; shift
digest=$(cat "$@" | sha256sum | cut -d ' ' -f 1)
cat >"$source" <<END
#include "src/cli/code_digest.h"

namespace stepcast::cli {

const char* CodeDigest() { return "$digest"; }

}  // namespace stepcast::cli
END
""",
    )
    return [DefaultInfo(files = depset([source]))]

# Numbers may change from build to build without a change of the version, and two programs, stepcast
# and stepcast-hardware, give the same: what tells builds apart are the libraries that both link.
code_digest_source = rule(
    implementation = _code_digest_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
