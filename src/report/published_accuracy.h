#pragma once

#include <string>

#include "src/validate/published.h"

// How well published training steps are forecast, for people and for programs.
namespace stepcast::report {

// Tables by source, fit and check rows apart, quality A and B apart; what was not simulated, with
// reasons; what is aimed at.
std::string PublishedAccuracyText(const validate::PublishedAccuracy& accuracy);

// The same as a section of a document.
std::string PublishedAccuracyMarkdown(const validate::PublishedAccuracy& accuracy);

// Every case, and all tables.
std::string PublishedAccuracyJson(const validate::PublishedAccuracy& accuracy);
std::string PublishedAccuracyCsv(const validate::PublishedAccuracy& accuracy);

// One page that needs no other file: tables, and plots of forecast against measured.
std::string PublishedAccuracyHtml(const validate::PublishedAccuracy& accuracy);

}  // namespace stepcast::report
