#pragma once

#include <string_view>

// Files that are embedded at build time: the charting libraries, style and script of every report
// page, and the forms of its charts.
namespace stepcast::report {

std::string_view VegaScript();
std::string_view VegaLiteScript();
std::string_view VegaEmbedScript();
// Returns the licenses of the charting libraries and of the code in these libraries.
std::string_view ChartLicences();

std::string_view PageStyle();   // page.css
std::string_view PageScript();  // page.js

std::string_view ChartForms();  // chart_forms.json

// Each function returns a script's hash ("sha256-..."), for the page's Content-Security-Policy.
std::string_view VegaScriptHash();
std::string_view VegaLiteScriptHash();
std::string_view VegaEmbedScriptHash();
std::string_view PageScriptHash();

}  // namespace stepcast::report
