#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "src/report/table.h"

// The output of `stepcast list`: names with a few figures each.
namespace stepcast::report {

struct ListingColumn {
  std::string heading;
  std::string key;  // of the JSON
  Align align = Align::kLeft;
};

struct Listing {
  std::string name;  // "models"
  std::vector<ListingColumn> columns;
  // One cell for each column. Integers are numbers in JSON, and have thousands separators in text.
  std::vector<std::vector<std::variant<std::string, std::int64_t>>> rows{};
  std::string footer{};  // a sentence below the text; may be empty
};

std::string ListingText(const Listing& listing);
// {"models": [{"name": ..., "parameters": ...}, ...]}
std::string ListingJson(const Listing& listing);

}  // namespace stepcast::report
