#include "src/validate/stored_outcomes.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/files.h"
#include "src/formats/csv_table.h"
#include "src/scenario/data_root.h"

namespace stepcast::validate {
namespace {

constexpr std::string_view kHeadings =
    "source,case,reason,model,gpu,devices,sequence_length,tokens,forecast_ps,low_ps,high_ps,filled,"
    "over,surely_over,rival_ps,rival_from_small_ps,memory";

// A field of a table, in double quotes.
std::string Field(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string TextOf(const std::optional<Time>& time) {
  return time ? fmt::format("{}", time->picoseconds()) : std::string();
}

// "allocated forecast low high just_fits", with `-` for a missing range.
std::string TextOf(const MemoryOutcome& memory) {
  std::string range = "- -";
  if (memory.range) {
    range = fmt::format("{} {}", memory.range->low.count(), memory.range->high.count());
  }
  return fmt::format("{} {} {} {} {}", scenario::Name(memory.kind), memory.measured.count(),
                     memory.forecast.count(), range, memory.just_fits);
}

template <class Number>
std::optional<Number> NumberIn(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The parts of a text between the characters `at`.
std::vector<std::string_view> PartsOf(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// The fields of one line, by heading. The first value that is not a number makes the line invalid.
class Line {
 public:
  Line(const formats::CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  bool valid() const { return valid_; }
  const std::string& Text(std::string_view heading) const {
    for (std::size_t i = 0; i < table_.headings.size(); ++i) {
      if (table_.headings[i].text == heading) return table_.rows[row_][i].text;
    }
    static const std::string kNone;
    return kNone;
  }
  template <class Number>
  Number Value(std::string_view heading) {
    return Checked<Number>(Text(heading));
  }
  std::optional<Time> When(std::string_view heading) {
    if (Text(heading).empty()) return std::nullopt;
    return Picoseconds(Value<std::int64_t>(heading));
  }
  std::optional<MemoryOutcome> Memory(std::string_view text) {
    const std::vector<std::string_view> words = PartsOf(text, ' ');
    constexpr std::size_t kWords = 6;
    MemoryOutcome memory;
    bool known = false;
    for (const auto kind : {scenario::MemoryKind::kAllocated, scenario::MemoryKind::kReserved,
                            scenario::MemoryKind::kDriver}) {
      if (words.size() != kWords || scenario::Name(kind) != words[0]) continue;
      memory.kind = kind;
      known = true;
    }
    valid_ = valid_ && known;
    if (!known) return std::nullopt;
    memory.measured = Bytes(Checked<std::int64_t>(words[1]));
    memory.forecast = Bytes(Checked<std::int64_t>(words[2]));
    if (words[3] != "-") {
      memory.range = forecast::BytesRange{Bytes(Checked<std::int64_t>(words[3])),
                                          Bytes(Checked<std::int64_t>(words[4]))};
    }
    memory.just_fits = Checked<double>(words[5]);
    return memory;
  }

 private:
  template <class Number>
  Number Checked(std::string_view text) {
    const std::optional<Number> number = NumberIn<Number>(text);
    valid_ = valid_ && number.has_value();
    return number.value_or(Number{});
  }

  const formats::CsvTable& table_;
  const std::size_t row_;
  bool valid_ = true;
};

void Fill(Line& line, PublishedOutcome& outcome) {
  outcome.reason = line.Text("reason");
  if (!outcome.simulated()) return;
  outcome.model = line.Text("model");
  outcome.gpu = line.Text("gpu");
  outcome.devices = line.Value<int>("devices");
  outcome.sequence_length = line.Value<std::int64_t>("sequence_length");
  outcome.tokens = line.Value<double>("tokens");
  outcome.forecast = line.When("forecast_ps").value_or(Time{});
  const std::optional<Time> low = line.When("low_ps"), high = line.When("high_ps");
  if (low && high) outcome.range = forecast::TimeRange{*low, *high};
  outcome.filled = line.Value<double>("filled");
  outcome.over = Bytes(line.Value<std::int64_t>("over"));
  outcome.surely_over = Bytes(line.Value<std::int64_t>("surely_over"));
  outcome.rival = {.step_time = line.When("rival_ps"),
                   .from_small = line.When("rival_from_small_ps")};
  for (const std::string_view text : PartsOf(line.Text("memory"), ';')) {
    if (auto memory = line.Memory(text)) outcome.memory.push_back(*std::move(memory));
  }
}

}  // namespace

std::string StoredOutcomesText(const PublishedAccuracy& accuracy) {
  std::string out = fmt::format(
      "# Outcomes of `stepcast validate published --run`, for answers without simulations.\n{}\n",
      kHeadings);
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    const scenario::PublishedCase& row = accuracy.CaseOf(outcome);
    std::vector<std::string> memory;
    for (const MemoryOutcome& peak : outcome.memory) memory.push_back(TextOf(peak));
    const bool simulated = outcome.simulated();
    const auto range = outcome.range;
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                       Field(accuracy.sources[outcome.source].name), Field(row.name),
                       Field(outcome.reason), Field(outcome.model), Field(outcome.gpu),
                       outcome.devices, outcome.sequence_length, outcome.tokens,
                       simulated ? TextOf(outcome.forecast) : "", range ? TextOf(range->low) : "",
                       range ? TextOf(range->high) : "", outcome.filled, outcome.over.count(),
                       outcome.surely_over.count(), TextOf(outcome.rival.step_time),
                       TextOf(outcome.rival.from_small), fmt::join(memory, ";"));
  }
  return out;
}

Result<PublishedAccuracy> ReadStoredOutcomes(const std::string& source) {
  auto accuracy = PublishedCases(source);
  if (!accuracy) return tl::unexpected(accuracy.error());
  const std::string path = scenario::DataRoot() + "/" + kStoredOutcomes;
  Diagnostics diagnostics;
  const auto text = ReadTextFile(path, diagnostics);
  if (!text) return tl::unexpected(std::move(diagnostics));
  const auto table = formats::ParseCsv(*text, path);
  if (!table) return tl::unexpected(table.error());

  std::map<std::pair<std::string, std::string>, std::size_t> row_of;
  for (std::size_t row = 0; row < table->rows.size(); ++row) {
    const Line line(*table, row);
    row_of[{line.Text("source"), line.Text("case")}] = row;
  }
  for (PublishedOutcome& outcome : accuracy->outcomes) {
    const std::string& name = accuracy->CaseOf(outcome).name;
    const auto row = row_of.find({accuracy->sources[outcome.source].name, name});
    bool found = row != row_of.end();
    if (found) {
      Line line(*table, row->second);
      Fill(line, outcome);
      found = line.valid();
    }
    if (!found) {
      return tl::unexpected(
          Diagnostics{{"published.not-stored", accuracy->CaseOf(outcome).location,
                       fmt::format("no result is stored for the case: '{}'", name),
                       "to simulate the cases, run stepcast validate published --run"}});
    }
  }
  return accuracy;
}

}  // namespace stepcast::validate
