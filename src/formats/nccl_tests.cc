#include "src/formats/nccl_tests.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "src/base/files.h"
#include "src/base/nccl_tests_convention.h"
#include "src/base/printable.h"
#include "src/base/text_lines.h"
#include "src/formats/json_tree.h"

namespace stepcast::formats {
namespace {

using Json = nlohmann::json;

constexpr double kLongestMicroseconds = 86'400e6;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 60;

struct Word {
  std::string_view text;
  int column = 0;
};

// The most sizes of one measurement, many times the usual number.
constexpr std::size_t kMostRows = 10'000;

std::optional<double> Decimal(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    return std::nullopt;
  }
  return number;
}

std::optional<std::int64_t> Integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// 22703 is NCCL 2.27.3, 2804 is 2.8.4.
std::string VersionText(std::int64_t code) {
  constexpr std::int64_t kLastOfOld = 10'000;
  const std::int64_t major = code < kLastOfOld ? code / 1000 : code / 10'000;
  const std::int64_t rest = code < kLastOfOld ? code % 1000 : code % 10'000;
  return fmt::format("{}.{}.{}", major, rest / 100, rest % 100);
}

// Checks for text and JSON.
class Checker {
 public:
  Diagnostics mistakes;

  void Report(std::string code, Location location, std::string message, std::string hint) {
    mistakes.push_back({std::move(code), std::move(location), std::move(message), std::move(hint)});
  }

  // Converts a time in microseconds from a row.
  std::optional<Time> ReadTime(std::optional<double> microseconds, std::string_view as_written,
                               const Location& location) {
    if (!microseconds || *microseconds <= 0 || *microseconds > kLongestMicroseconds) {
      Report(
          "nccl-tests.bad-row", location,
          fmt::format("a time in microseconds must be longer than zero and shorter than a day: {}",
                      Quoted(as_written)),
          "remove the row, or repeat the measurement");
      return std::nullopt;
    }
    constexpr double kPicoseconds = 1e6;
    return Picoseconds(std::max<std::int64_t>(std::llround(*microseconds * kPicoseconds), 1));
  }

  // Checks that algbw is size / time. It is printed with two digits after the decimal point, and
  // times with at least three digits.
  void CheckBandwidth(Bytes size, std::optional<Time> time, std::optional<double> algbw,
                      const Location& location) {
    if (!time || !algbw || size == Bytes()) return;
    constexpr double kGigabytes = 1e3;  // bytes over picoseconds are TB/s
    constexpr double kRounding = 0.011;
    constexpr double kTolerance = 0.03;
    const double expected =
        static_cast<double>(size.count()) / static_cast<double>(time->picoseconds()) * kGigabytes;
    if (std::abs(expected - *algbw) <= kRounding + kTolerance * std::max(expected, *algbw)) return;
    Report(
        "nccl-tests.bad-row", location,
        fmt::format(
            "the size divided by the time is {:.4g} GB/s, but algbw in the same row is {:.4g} GB/s",
            expected, *algbw),
        "compare the row with the original output, and its columns with the heading");
  }

  void CheckWrong(double wrong, Bytes size, const Location& location) {
    if (!(wrong > 0)) return;
    Report("nccl-tests.wrong-results", location,
           fmt::format("nccl-tests reported wrong results for messages of {} B: the number of "
                       "wrong results is {}",
                       size.count(), wrong),
           "find the cause of the wrong results, and repeat the measurement: the times cannot be "
           "used for a calibration");
  }

  void Failed(const Location& location, std::string_view line) {
    Report("nccl-tests.failed", location, "the run failed: " + Quoted(line, ""),
           "repeat the measurement");
  }
};

class TextReader {
 public:
  TextReader(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  Result<std::vector<NcclTestsRun>> Run() {
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      ++line_;
      ReadLine(text_.substr(begin, end - begin));
      if (done_ || check_.mistakes.size() >= kMostShownFaults) break;
      begin = end + 1;
    }
    Close();
    if (!check_.mistakes.empty()) return tl::unexpected(std::move(check_.mistakes));
    if (runs_.empty()) {
      return tl::unexpected(Diagnostics{{"nccl-tests.no-table",
                                         {file_, 0, 0},
                                         "the file has no table of nccl-tests",
                                         "use a file with the printed output or the -J output of a "
                                         "test of nccl-tests, such as all_reduce_perf"}});
    }
    return std::move(runs_);
  }

 private:
  // The position of a word in the present line.
  Location At(const Word& word) const { return {file_, line_, word.column}; }

  static std::vector<Word> WordsOf(std::string_view line, std::size_t from) {
    std::vector<Word> words;
    for (std::size_t i = from; i < line.size();) {
      if (line[i] == ' ' || line[i] == '\t' || line[i] == '\r') {
        ++i;
        continue;
      }
      const std::size_t end = std::min(line.find_first_of(" \t\r", i), line.size());
      words.push_back({line.substr(i, end - i), static_cast<int>(i) + 1});
      i = end;
    }
    return words;
  }

  // The position after blanks and prefixes of launchers and log collectors.
  static std::size_t Start(std::string_view line) {
    std::size_t start = 0;
    for (;;) {
      start = std::min(line.find_first_not_of(" \t", start), line.size());
      const std::size_t tag = LengthOfTag(line.substr(start));
      if (tag == 0) return start;
      start += tag;
    }
  }

  // The length of a prefix: "[1,0]<stdout>:" (Open MPI), "[pod/a/b] " (kubectl), "0: " (srun),
  // "2026-01-31T12:00:00.5Z " (time stamps). 0 if there is none.
  static std::size_t LengthOfTag(std::string_view line) {
    if (line.starts_with('[')) {
      const std::size_t bracket = line.find(']');
      if (bracket == std::string_view::npos) return 0;
      for (const std::string_view stream : {"<stdout>:", "<stderr>:"}) {
        if (line.substr(bracket + 1).starts_with(stream)) return bracket + 1 + stream.size();
      }
      return line.starts_with("[pod/") ? bracket + 1 : 0;
    }
    const std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
    if (digits == 0) return 0;
    if (line.substr(digits).starts_with(": ")) return digits + 2;
    constexpr std::string_view kDate = "0000-00-00T00:00:00";
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end < kDate.size()) return 0;
    for (std::size_t i = 0; i < kDate.size(); ++i) {
      const bool digit = line[i] >= '0' && line[i] <= '9';
      if (kDate[i] == '0' ? !digit : line[i] != kDate[i]) return 0;
    }
    return end;
  }

  void ReadLine(std::string_view line) {
    const std::vector<Word> words = WordsOf(line, Start(line));
    if (words.empty()) return;
    if (words[0].text.starts_with('#')) {
      ReadComment(line, words);
      return;
    }
    if (line.find("Test NCCL failure") != std::string_view::npos ||
        line.find("Test CUDA failure") != std::string_view::npos ||
        line.find("Test failure") != std::string_view::npos) {
      check_.Failed(At(words[0]), line.substr(Start(line)));
      return;
    }
    constexpr std::string_view kVersion = "NCCL version ";
    if (const std::size_t at = line.find(kVersion); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kVersion.size());
      nccl_version_ = std::string(rest.substr(0, rest.find_first_of("+ \t\r")));
      if (open_) run_.nccl_version = nccl_version_;
      return;
    }
    if (!open_ || columns_.empty()) return;
    // Lines of NCCL_DEBUG or of the launcher may occur between the rows.
    const char begin = words[0].text.front();
    const bool like_a_row = begin >= '0' && begin <= '9' && words.size() == columns_.size();
    if (Integer(words[0].text) || like_a_row) ReadRow(words);
  }

  void ReadComment(std::string_view line, const std::vector<Word>& all) {
    // "#" may precede the first word without a blank.
    std::vector<Word> words = all;
    words[0].text.remove_prefix(1);
    if (words[0].text.empty()) words.erase(words.begin());
    if (words.empty()) return;
    const auto is = [&](std::size_t i, std::string_view text) {
      return i < words.size() && words[i].text == text;
    };
    if (is(0, "nccl-tests") && is(1, "version") && words.size() > 2) {
      Begin(At(words[0]));
      run_.tests_version = std::string(words[2].text);
      for (const Word& word : words) {
        constexpr std::string_view kLibrary = "nccl-library=";
        if (!word.text.starts_with(kLibrary)) continue;
        if (const auto code = Integer(word.text.substr(kLibrary.size()))) {
          run_.nccl_version = VersionText(*code);
        }
      }
    } else if (is(0, "Collective") && is(2, "starting:") && words.size() > 3) {
      if (!run_.program.empty() || !open_) Begin(At(words[0]));
      run_.program = std::string(words[3].text.substr(words[3].text.rfind('/') + 1));
      run_.collective = CollectiveOfNcclTest(words[3].text);
    } else if (is(0, "nThread")) {
      if (!open_ || parameters_ || !columns_.empty()) Begin(At(words[0]));
      parameters_ = true;
    } else if (is(0, "Rank") && words.size() > 1) {
      ReadRank(words);
    } else if (is(0, "size") && is(1, "count")) {
      ReadHeading(words);
    } else if (is(0, "Out") && is(2, "bounds")) {
      ReportCutRow();
      run_.concluded = true;
      if (std::any_of(words.begin(), words.end(),
                      [](const Word& word) { return word.text == "FAILED"; })) {
        check_.Report("nccl-tests.wrong-results", At(words[0]),
                      "nccl-tests found wrong values: " + Quoted(line.substr(line.find("Out")), ""),
                      "find the cause of the wrong results, and repeat the measurement: the times "
                      "cannot be used for a calibration");
      }
    } else if (is(0, "error:")) {
      check_.Failed(At(words[0]), line.substr(line.find("error:")));
    }
  }

  void Begin(const Location& location) {
    Close();
    open_ = true;
    run_ = {};
    run_.location = location;
    run_.nccl_version = nccl_version_;
  }

  // Reports a row with too few columns that is not the last row.
  void ReportCutRow() {
    if (cut_row_) check_.mistakes.push_back(*std::exchange(cut_row_, std::nullopt));
  }

  void Close() {
    if (open_ && run_.rows.empty() && !columns_.empty() && !dropped_) {
      check_.Report("nccl-tests.cut-off", run_.location,
                    "the table has a heading but no rows, because the run ended early",
                    "repeat the measurement");
    }
    run_.cut = std::exchange(cut_row_, std::nullopt).has_value();
    if (open_ && !run_.rows.empty()) runs_.push_back(std::move(run_));
    open_ = false;
    parameters_ = false;
    dropped_ = false;
    columns_.clear();
    run_ = {};
  }

  // Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3
  void ReadRank(const std::vector<Word>& words) {
    if (!open_ || !columns_.empty()) Begin(At(words[0]));
    const auto rank = Integer(words[1].text);
    if (!rank || *rank < 0 || *rank >= 10'000'000) return;
    run_.ranks = std::max(run_.ranks, static_cast<int>(*rank) + 1);
    for (std::size_t i = 2; i + 1 < words.size(); ++i) {
      if (words[i].text == "on" && !AddHost(words[i + 1])) return;
      if (words[i].text.ends_with(']')) {
        run_.gpu.clear();
        for (std::size_t j = i + 1; j < words.size(); ++j) {
          run_.gpu += fmt::format("{}{}", j == i + 1 ? "" : " ", words[j].text);
        }
        break;
      }
    }
  }

  // Adds a host that the run named; every table has all of them.
  bool AddHost(const Word& name) {
    constexpr std::size_t kMostHosts = 10'000;
    run_.hosts.insert(std::string(name.text));
    return run_.hosts.size() <= kMostHosts ||
           TooLarge(name, fmt::format("the log has more than {} hosts", kMostHosts));
  }

  // Reports the last mistake, after which nothing is read.
  bool TooLarge(const Word& word, std::string what) {
    check_.Report("nccl-tests.too-large", At(word), std::move(what),
                  "use a file with the output of one measurement");
    done_ = true;
    return false;
  }

  void ReadHeading(const std::vector<Word>& words) {
    constexpr std::size_t kMostTables = 1000;
    constexpr std::size_t kMostColumns = 100;
    if (runs_.size() == kMostTables) {
      TooLarge(words[0], fmt::format("the log has more than {} tables", kMostTables));
      return;
    }
    if (words.size() > kMostColumns) {
      TooLarge(words[0], fmt::format("the table has more than {} columns", kMostColumns));
      return;
    }
    if (!open_ || !columns_.empty()) {
      // A run without any other line, or another table of the same run.
      run_.concluded = true;  // it went on
      NcclTestsRun before;
      before.program = run_.program;
      before.collective = run_.collective;
      before.ranks = run_.ranks;
      before.hosts = run_.hosts;
      before.gpu = run_.gpu;
      before.tests_version = run_.tests_version;
      before.nccl_version = run_.nccl_version;
      Begin(At(words[0]));
      before.location = run_.location;
      run_ = std::move(before);
    }
    run_.location = At(words[0]);
    for (const Word& word : words) columns_.emplace_back(word.text);
    const auto time = std::find_if(columns_.begin(), columns_.end(), [](const std::string& name) {
      return name == "time" || name == "cputime";
    });
    if (time != columns_.end() && *time == "cputime") {
      check_.Report("nccl-tests.cpu-time", At(words[0]),
                    "the times are CPU times (option -C), not times of the collective",
                    "measure again without -C");
    }
    first_time_ = static_cast<std::size_t>(time - columns_.begin());
  }

  void ReadRow(const std::vector<Word>& words) {
    // Counted from the end, since columns between type and time may be empty.
    std::size_t measures = columns_.size() - first_time_;
    std::size_t count = words.size();
    if (measures > 0 && columns_.back() == "timestamp") {
      --measures;
      if (count >= 2) count -= 2;  // a date and a time
    }
    ReportCutRow();
    if (measures < 3 || count < measures + 3) {
      dropped_ = dropped_ || !run_.rows.empty();
      cut_row_ = Diagnostic{
          "nccl-tests.cut-off", At(words[0]),
          fmt::format(
              "the row has {} columns, but the heading has {} columns; the size in the row is {}",
              words.size(), columns_.size(), Quoted(words[0].text)),
          "the log is incomplete, or the run ended early: repeat the run, or remove the row"};
      return;
    }
    const auto size = Integer(words[0].text);
    if (!size || *size < 0 || *size > kLargestSize) {
      check_.Report("nccl-tests.bad-row", At(words[0]),
                    fmt::format("the field is not a size in bytes: {}", Quoted(words[0].text)), "");
      return;
    }
    NcclTestsRow row;
    row.size = Bytes(*size);
    row.location = At(words[0]);
    const std::size_t first_word = count - measures;
    int which = 0;
    for (std::size_t i = 0; i < measures; ++i) {
      const std::string& column = columns_[first_time_ + i];
      const Word& word = words[first_word + i];
      if (column == "time" || column == "cputime") {
        auto& time = which++ == 0 ? row.out_of_place : row.in_place;
        time = check_.ReadTime(Decimal(word.text), word.text, At(word));
        if (i + 2 < measures) KeepTraits(words, first_word, i);
        if (i + 1 < measures && columns_[first_time_ + i + 1] == "algbw") {
          check_.CheckBandwidth(row.size, time, Decimal(words[first_word + i + 1].text), At(word));
        }
      } else if (column == "#wrong" && word.text != "N/A") {
        if (const auto wrong = Decimal(word.text)) {
          check_.CheckWrong(*wrong, row.size, At(word));
        } else {
          check_.Report(
              "nccl-tests.bad-row", At(word),
              fmt::format("the field is not a number of wrong results: {}", Quoted(word.text)), "");
        }
      }
    }
    if (run_.rows.size() == kMostRows) {
      TooLarge(words[0], fmt::format("the table has more than {} rows", kMostRows));
      return;
    }
    run_.rows.push_back(std::move(row));
  }

  // Keeps the traits of a row whose time is at `measure`, before algbw and busbw.
  void KeepTraits(const std::vector<Word>& words, std::size_t first_word, std::size_t measure) {
    NcclTestsTraits& traits = run_.traits;
    const auto column = [&](std::string_view name) {
      return std::find(columns_.begin(), columns_.end(), name) != columns_.end();
    };
    if (columns_[first_time_ + measure + 1] == "algbw" &&
        columns_[first_time_ + measure + 2] == "busbw") {
      const auto algbw = Decimal(words[first_word + measure + 1].text);
      const auto busbw = Decimal(words[first_word + measure + 2].text);
      if (algbw && busbw && *algbw > traits.algbw) {
        traits.algbw = *algbw;
        traits.busbw = *busbw;
      }
    }
    // Columns after size, count and type.
    constexpr std::size_t kBefore = 3;
    if (column("redop")) traits.reduces = false;
    if (column("root")) traits.rooted = false;
    for (std::size_t i = kBefore; i < first_word; ++i) {
      if (const auto root = Integer(words[i].text)) {
        traits.rooted = *root >= 0;
      } else {
        traits.reduces = words[i].text != "none";
      }
    }
  }

  std::string_view text_;
  std::string file_;
  Checker check_;
  std::optional<Diagnostic> cut_row_;  // set if the last row was cut, unless another row follows
  std::vector<NcclTestsRun> runs_;
  NcclTestsRun run_;
  bool open_ = false;
  bool parameters_ = false;  // the line that begins with nThread was read
  bool dropped_ = false;     // a row that could not be read
  bool done_ = false;
  int line_ = 0;
  std::string nccl_version_;
  std::vector<std::string> columns_;  // of the table that is open
  std::size_t first_time_ = 0;        // its first column of measurements
};

class JsonReader {
 public:
  JsonReader(std::string_view text, std::string file)
      : text_(text), file_(file), lines_(text, std::move(file)) {}

  Result<std::vector<NcclTestsRun>> Run() {
    auto parsed = ParseJsonTree(text_);
    if (!parsed) {
      check_.Report("file.not-json", At(parsed.error().offset),
                    "the text is not valid JSON: " + parsed.error().what,
                    "repeat the run, because the run may have ended early");
      return tl::unexpected(std::move(check_.mistakes));
    }
    const Json& document = *parsed;
    if (!document.is_object() || !document.contains("results") ||
        !document.at("results").is_array()) {
      check_.Report("nccl-tests.no-table", {file_, 1, 1},
                    "the JSON text has no key 'results' in the format of nccl-tests",
                    "use the output file of the option -J of nccl-tests");
      return tl::unexpected(std::move(check_.mistakes));
    }
    NcclTestsRun run;
    const std::size_t results = text_.find("\"results\"");
    run.location = At(results == std::string_view::npos ? 0 : results);
    ReadHeader(document, run);
    std::size_t at = results;
    if (document.at("results").size() > kMostRows) {
      check_.Report("nccl-tests.too-large", run.location,
                    fmt::format("'results' has more than {} rows", kMostRows),
                    "use a file with the results of one measurement");
      return tl::unexpected(std::move(check_.mistakes));
    }
    for (const Json& row : document.at("results")) {
      at = at == std::string_view::npos ? at : text_.find("\"size\"", at + 1);
      ReadRow(row, At(at == std::string_view::npos ? 0 : at), run);
      if (check_.mistakes.size() >= kMostShownFaults) break;
    }
    ReadVerdict(document);
    run.concluded = true;  // a truncated file would not be JSON
    if (run.rows.empty() && check_.mistakes.empty()) {
      check_.Report("nccl-tests.cut-off", run.location,
                    "'results' has no rows, because the run ended early", "repeat the measurement");
    }
    if (!check_.mistakes.empty()) return tl::unexpected(std::move(check_.mistakes));
    std::vector<NcclTestsRun> runs;
    runs.push_back(std::move(run));
    return runs;
  }

 private:
  Location At(std::size_t offset) const { return lines_.At(std::min(offset, text_.size())); }

  static std::string TextOf(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  }
  static std::int64_t NumberOf(const Json& object, const char* key, std::int64_t otherwise) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                               : otherwise;
  }

  void ReadHeader(const Json& document, NcclTestsRun& run) {
    if (const auto args = document.find("args");
        args != document.end() && args->is_array() && !args->empty() && (*args)[0].is_string()) {
      const std::string path = (*args)[0].get<std::string>();
      run.program = path.substr(path.rfind('/') + 1);
      run.collective = CollectiveOfNcclTest(path);
    }
    run.started = TextOf(document, "start_time");
    run.tests_version = TextOf(document, "nccl_tests_version");
    if (const std::int64_t code = NumberOf(document, "nccl_version", 0); code > 0) {
      run.nccl_version = VersionText(code);
    }
    const auto config = document.find("config");
    if (config == document.end() || !config->is_object()) return;
    const auto devices = config->find("devices");
    if (devices == config->end() || !devices->is_array()) return;
    // One entry per process, which may have several threads with several GPUs.
    constexpr std::int64_t kMost = 100'000;
    const std::int64_t threads =
        std::clamp<std::int64_t>(NumberOf(*config, "nthreads", 1), 1, kMost);
    const std::int64_t gpus = std::clamp<std::int64_t>(NumberOf(*config, "ngpus", 1), 1, kMost);
    std::int64_t highest = -1;
    for (const Json& device : *devices) {
      if (!device.is_object()) continue;
      highest =
          std::max(highest, std::clamp<std::int64_t>(NumberOf(device, "rank", -1), -1, 10'000'000));
      if (const std::string host = TextOf(device, "hostname"); !host.empty())
        run.hosts.insert(host);
      if (run.gpu.empty()) run.gpu = TextOf(device, "device_info");
    }
    const std::int64_t processes = static_cast<std::int64_t>(devices->size());
    run.ranks = static_cast<int>(
        std::min<std::int64_t>(std::max(processes * threads * gpus, highest + 1), 10'000'000));
  }

  std::optional<Time> ReadMeasurement(const Json& row, const char* key, Bytes size,
                                      const Location& location) {
    const auto found = row.find(key);
    if (found == row.end() || found->is_null()) return std::nullopt;
    if (!found->is_object()) {
      check_.Report("nccl-tests.bad-row", location, fmt::format("'{}' is not an object", key), "");
      return std::nullopt;
    }
    if (found->contains("cpu_time")) {
      check_.Report("nccl-tests.cpu-time", location,
                    "the times are CPU times (option -C), not times of the collective",
                    "measure again without -C");
      return std::nullopt;
    }
    const auto number = [&](const char* name) -> std::optional<double> {
      const auto value = found->find(name);
      if (value == found->end() || !value->is_number()) return std::nullopt;
      return value->get<double>();
    };
    const auto written = found->find("time");
    const std::optional<Time> time = check_.ReadTime(
        number("time"),
        written == found->end() ? "nothing"
                                : written->dump(-1, ' ', false, Json::error_handler_t::replace),
        location);
    check_.CheckBandwidth(size, time, number("alg_bw"), location);
    check_.CheckWrong(number("nwrong").value_or(0), size, location);
    return time;
  }

  void ReadRow(const Json& json, const Location& location, NcclTestsRun& run) {
    const std::int64_t size = json.is_object() ? NumberOf(json, "size", -1) : -1;
    if (size < 0 || size > kLargestSize) {
      check_.Report("nccl-tests.bad-row", location, "a row of 'results' has no size in bytes", "");
      return;
    }
    NcclTestsRow row;
    row.size = Bytes(size);
    row.location = location;
    row.out_of_place = ReadMeasurement(json, "out_of_place", row.size, location);
    row.in_place = ReadMeasurement(json, "in_place", row.size, location);
    run.rows.push_back(std::move(row));
  }

  void ReadVerdict(const Json& document) {
    if (const auto bounds = document.find("out_of_bounds");
        bounds != document.end() && bounds->is_object() && NumberOf(*bounds, "count", 0) > 0) {
      check_.Report("nccl-tests.wrong-results", At(text_.find("\"out_of_bounds\"")),
                    fmt::format("nccl-tests found wrong values: {}", NumberOf(*bounds, "count", 0)),
                    "find the cause of the wrong results, and repeat the measurement: the times "
                    "cannot be used for a calibration");
    }
    if (const auto errors = document.find("errors");
        errors != document.end() && errors->is_array()) {
      for (const Json& error : *errors) {
        if (!error.is_string() || error.get<std::string>().empty()) continue;
        if (check_.mistakes.size() >= kMostShownFaults) break;
        check_.Failed(At(text_.find("\"errors\"")), error.get<std::string>());
      }
    }
  }

  std::string_view text_;
  std::string file_;
  TextLines lines_;
  Checker check_;
};

}  // namespace

Result<std::vector<NcclTestsRun>> ParseNcclTests(std::string_view text, const std::string& file) {
  Diagnostics mistakes;
  if (!CheckText(text, file, mistakes)) return tl::unexpected(std::move(mistakes));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return JsonReader(text, file).Run();
  return TextReader(text, file).Run();
}

}  // namespace stepcast::formats
