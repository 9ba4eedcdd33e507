#pragma once

#include <string>
#include <vector>

#include "src/report/table.h"
#include "src/validate/published.h"

// Tables of published steps, for text, document and page. For the .cc files of this package only.
namespace stepcast::report {

struct PublishedTable {
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
  std::string note;  // below the table; may be empty
};

// Those that have rows.
std::vector<PublishedTable> PublishedTables(const validate::PublishedAccuracy& accuracy);

// How the tables are to be read.
std::string PublishedPreface();

// "1087 cases of 2 sources: 185 simulated, 902 not."
std::string PublishedCounts(const validate::PublishedAccuracy& accuracy);

}  // namespace stepcast::report
