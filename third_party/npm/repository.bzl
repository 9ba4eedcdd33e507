"""Makes the packages that tools/setup installed from npm a repository."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

filegroup(
    name = "vega",
    srcs = ["node_modules/vega/build/vega.min.js"],
)

filegroup(
    name = "vega_lite",
    srcs = ["node_modules/vega-lite/build/vega-lite.min.js"],
)

filegroup(
    name = "vega_embed",
    srcs = ["node_modules/vega-embed/build/vega-embed.min.js"],
)

# Of everything that the three may hold code of.
filegroup(
    name = "licences",
    srcs = glob(
        [
            "node_modules/**/LICENSE",
            "node_modules/**/LICENSE.*",
            "node_modules/**/LICENCE",
        ],
        exclude = ["node_modules/playwright-core/**"],
    ),
)

filegroup(
    name = "playwright_core",
    srcs = glob(["node_modules/playwright-core/**"]),
)
"""

def _npm_packages_impl(repository_ctx):
    lock = repository_ctx.path(Label("//third_party/npm:package-lock.json"))
    modules = lock.dirname.get_child("node_modules")
    installed = modules.get_child(".stepcast-lock")
    if not installed.exists or repository_ctx.read(installed) != repository_ctx.read(lock):
        fail("the packages of third_party/npm are not installed: run tools/setup")
    repository_ctx.symlink(modules, "node_modules")
    repository_ctx.file("BUILD", _BUILD)

npm_packages = repository_rule(
    implementation = _npm_packages_impl,
    doc = "third_party/npm/node_modules, as `tools/setup` fills it.",
    configure = True,
    local = True,
)
