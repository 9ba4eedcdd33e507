#include "src/report/listing.h"

#include <cstddef>
#include <utility>

#include "src/report/json.h"
#include "src/report/table.h"

namespace stepcast::report {

std::string ListingText(const Listing& listing) {
  std::vector<Column> columns;
  for (const ListingColumn& column : listing.columns) {
    columns.push_back({column.heading, column.align});
  }
  Table table(std::move(columns));
  for (const auto& row : listing.rows) {
    std::vector<std::string> cells;
    for (const auto& cell : row) {
      const auto* number = std::get_if<std::int64_t>(&cell);
      cells.push_back(number != nullptr ? Grouped(*number) : std::get<std::string>(cell));
    }
    table.AddRow(std::move(cells));
  }
  return table.ToString() + (listing.footer.empty() ? "" : "\n" + listing.footer + "\n");
}

std::string ListingJson(const Listing& listing) {
  Json rows = Json::array();
  for (const auto& row : listing.rows) {
    Json object = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::visit([&](const auto& value) { object[listing.columns[i].key] = Json(value); }, row[i]);
    }
    rows.push_back(std::move(object));
  }
  Json document = Json::object();
  document[listing.name] = std::move(rows);
  return document.Indented() + "\n";
}

}  // namespace stepcast::report
