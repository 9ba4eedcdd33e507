#include "src/formats/csv_table.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "src/base/printable.h"

namespace stepcast::formats {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& file, std::size_t most_fields)
      : text_(text), file_(file), most_fields_(most_fields) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  Result<std::vector<std::vector<CsvCell>>> Rows() {
    std::vector<std::vector<CsvCell>> rows;
    while (Goes()) {
      if (!SkipsLine()) rows.push_back(Line());
    }
    if (!faults_.empty()) return tl::make_unexpected(std::move(faults_));
    return rows;
  }

  Result<CsvTable> Table() {
    CsvTable table;
    bool headed = false;
    while (Goes()) {
      if (SkipsLine()) continue;
      const int line = line_;
      std::vector<CsvCell> cells = Line();
      if (too_large_) break;
      if (!headed) {
        headed = true;
        table.headings = std::move(cells);
        CheckHeadings(table.headings);
      } else if (cells.size() == table.headings.size()) {
        table.rows.push_back(std::move(cells));
      } else {
        faults_.push_back({"csv.fields",
                           {file_, line, 1},
                           fmt::format("the heading line has {} fields, but this line has {}",
                                       table.headings.size(), cells.size()),
                           "put values that contain commas in double quotes"});
      }
    }
    if (!headed && !too_large_) {
      faults_.push_back({"csv.heading",
                         {file_, 0, 0},
                         "the first line of the table must contain the headings of the columns",
                         "write the headings in the first line, for example "
                         "'scenario,training.micro_batch_size,step_time'"});
    }
    if (!faults_.empty()) return tl::make_unexpected(std::move(faults_));
    return table;
  }

 private:
  // Whether to continue: there is more text, and not too many mistakes.
  bool Goes() const {
    return at_ < text_.size() && !too_large_ && faults_.size() < kMostShownFaults;
  }

  void FailTooLarge(Location location, std::size_t most, std::string_view what) {
    too_large_ = true;
    faults_.push_back({"file.too-large", std::move(location),
                       fmt::format("the table has more than {} {}", most, what),
                       "check that the path is correct"});
  }

  Location Here() const { return {file_, line_, static_cast<int>(at_ - line_begin_) + 1}; }

  void NextLine() {
    ++line_;
    line_begin_ = at_;
  }

  // Skips a blank line or a comment.
  bool SkipsLine() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    const bool skips = line.starts_with('#') || line.find_first_not_of(" \t\r") == line.npos;
    if (!skips) return false;
    at_ = std::min(end + 1, text_.size());
    NextLine();
    return true;
  }

  std::vector<CsvCell> Line() {
    std::vector<CsvCell> cells;
    for (;;) {
      cells.push_back(Cell());
      if (++fields_ > most_fields_) {
        FailTooLarge(cells.back().location, most_fields_, "fields");
        return cells;
      }
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      if (at_ < text_.size()) ++at_;  // the line's end
      NextLine();
      return cells;
    }
  }

  // Reads a field, up to the next comma or line end.
  CsvCell Cell() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    CsvCell cell{.text = "", .location = Here()};
    if (at_ < text_.size() && text_[at_] == '"') return Quoted(std::move(cell));
    const std::size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    cell.text = Trimmed(text_.substr(at_, end - at_));
    at_ = end;
    return cell;
  }

  CsvCell Quoted(CsvCell cell) {
    ++at_;
    for (;;) {
      const std::size_t end = text_.find('"', at_);
      if (end == std::string_view::npos) {
        faults_.push_back({"csv.quote", cell.location, "a quoted field has no closing quote",
                           "add the closing quote; write each double quote in the field twice"});
        at_ = text_.size();
        return cell;
      }
      for (std::size_t i = at_; i < end; ++i) {
        if (text_[i] != '\n') continue;
        ++line_;
        line_begin_ = i + 1;
      }
      cell.text += text_.substr(at_, end - at_);
      at_ = end + 1;
      if (at_ >= text_.size() || text_[at_] != '"') break;
      cell.text += '"';
      ++at_;
    }
    const std::size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    const std::string rest = Trimmed(text_.substr(at_, end - at_));
    if (!rest.empty()) {
      faults_.push_back({"csv.quote", Here(),
                         fmt::format("text follows a closing quote: {}", stepcast::Quoted(rest)),
                         "put the entire field in quotes"});
    }
    at_ = end;
    return cell;
  }

  static std::string Trimmed(std::string_view text) {
    while (!text.empty() && std::string_view(" \t\r").find(text.back()) != std::string_view::npos) {
      text.remove_suffix(1);
    }
    return std::string(text);
  }

  void CheckHeadings(const std::vector<CsvCell>& headings) {
    if (headings.size() > kMostCsvColumns) {
      FailTooLarge(headings[kMostCsvColumns].location, kMostCsvColumns, "columns");
      return;
    }
    for (std::size_t i = 0; i < headings.size(); ++i) {
      const CsvCell& heading = headings[i];
      if (heading.text.empty()) {
        faults_.push_back({"csv.heading", heading.location, "a heading is empty",
                           "write a heading for the column, or remove the column"});
      }
      const bool twice = std::any_of(headings.begin(), headings.begin() + static_cast<int>(i),
                                     [&](const CsvCell& one) { return one.text == heading.text; });
      if (twice && !heading.text.empty()) {
        faults_.push_back(
            {"csv.heading", heading.location,
             fmt::format("two columns have the same heading: {}", stepcast::Quoted(heading.text)),
             "remove one of the two columns"});
      }
    }
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  int line_ = 1;
  const std::size_t most_fields_;
  std::size_t fields_ = 0;
  bool too_large_ = false;
  Diagnostics faults_;
};

}  // namespace

Result<std::vector<std::vector<CsvCell>>> ParseCsvRows(std::string_view text,
                                                       const std::string& file) {
  return Parser(text, file, kMostCsvFields).Rows();
}

Result<CsvTable> ParseCsv(std::string_view text, const std::string& file) {
  return Parser(text, file, kMostCsvTableFields).Table();
}

}  // namespace stepcast::formats
