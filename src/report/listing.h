#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "src/report/table.h"

// What `stepcast list` prints: things that have names, with a few figures of each.
namespace stepcast::report {

struct ListingColumn {
  std::string heading;
  std::string key;  // of the JSON
  Align align = Align::kLeft;
};

struct Listing {
  std::string name;  // "models"
  std::vector<ListingColumn> columns;
  // One cell for each column; whole numbers are numbers in JSON, and have separators in text.
  std::vector<std::vector<std::variant<std::string, std::int64_t>>> rows{};
  std::string footer{};  // a sentence below the text; empty: there is none
};

std::string ListingText(const Listing& listing);
// {"models": [{"name": ..., "parameters": ...}, ...]}
std::string ListingJson(const Listing& listing);

}  // namespace stepcast::report
