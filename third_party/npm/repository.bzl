"""Makes the packages that tools/setup installed from npm a repository."""

_CHARTS = """
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
        exclude = [
            "node_modules/axe-core/**",
            "node_modules/playwright-core/**",
        ],
    ),
)
"""

_PLAYWRIGHT = """
package(default_visibility = ["//visibility:public"])

filegroup(
    name = "core",
    srcs = glob(["node_modules/playwright-core/**"]),
)

filegroup(
    name = "axe",
    srcs = ["node_modules/axe-core/axe.min.js"],
)
"""

def _add(repository_ctx, needed, option, build):
    """Makes the installed packages a repository, if one of them is there."""
    lock = repository_ctx.path(Label("//third_party/npm:package-lock.json"))
    modules = lock.dirname.get_child("node_modules")
    installed = modules.get_child(".stepcast-lock")
    if (not installed.exists or repository_ctx.read(installed) != repository_ctx.read(lock) or
        not modules.get_child(needed).exists):
        fail("the packages of third_party/npm are not installed: run tools/setup" + option)
    repository_ctx.symlink(modules, "node_modules")
    repository_ctx.file("BUILD", build)

def _charts_impl(repository_ctx):
    _add(repository_ctx, "vega", "", _CHARTS)

npm_charts = repository_rule(
    implementation = _charts_impl,
    doc = "What third_party/npm/node_modules has for reports, as `tools/setup` fills it.",
    configure = True,
    local = True,
)

def _playwright_impl(repository_ctx):
    _add(repository_ctx, "playwright-core", " --test", _PLAYWRIGHT)

# A repository of its own: it is asked for only by a test, when `tools/setup --test` has run.
npm_playwright = repository_rule(
    implementation = _playwright_impl,
    doc = "What it has for tests, as `tools/setup --test` fills it.",
    configure = True,
    local = True,
)
