#include "tests/examples/schedule_parser.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/parallel/schedule_text.h"

namespace stepcast::parallel {
namespace {

// Largest number of a micro-batch or chunk.
constexpr int kHighestNumber = 999'999'999;

// Removes a non-negative number from the start of the text and returns it.
std::optional<int> TakeNumber(std::string_view& text) {
  int number = 0;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > kHighestNumber) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// Removes ".4" from the start of the text and returns it; without it, returns the stage's only
// chunk.
std::optional<int> TakeChunk(std::string_view& text, int stage_chunk) {
  if (!text.starts_with('.')) {
    return stage_chunk >= 0 ? std::optional<int>(stage_chunk) : std::nullopt;
  }
  text.remove_prefix(1);
  return TakeNumber(text);
}

std::optional<Action> TakeAction(std::string_view& text, int stage_chunk) {
  const std::optional<Task> task = text.empty() ? std::nullopt : TaskOf(text.front());
  if (!task) return std::nullopt;
  text.remove_prefix(1);
  const std::optional<int> micro_batch = TakeNumber(text);
  if (!micro_batch) return std::nullopt;
  const std::optional<int> chunk = TakeChunk(text, stage_chunk);
  if (!chunk) return std::nullopt;
  return Action{*task, *micro_batch, *chunk};
}

std::optional<ScheduleEntry> ReadEntry(std::string_view text, int stage_chunk) {
  for (const auto kind : {ParameterPass::Kind::kUnshard, ParameterPass::Kind::kReshard,
                          ParameterPass::Kind::kReduceGradients}) {
    const std::string word = Print(ParameterPass{kind, 0}, 0);
    if (!text.starts_with(word)) continue;
    text.remove_prefix(word.size());
    const std::optional<int> chunk = TakeChunk(text, stage_chunk);
    if (!chunk || !text.empty()) return std::nullopt;
    return ParameterPass{kind, *chunk};
  }
  const std::optional<Action> action = TakeAction(text, stage_chunk);
  if (!action || text.empty()) return action;
  if (text.front() != '+') return std::nullopt;
  text.remove_prefix(1);
  const std::optional<Action> backward = TakeAction(text, stage_chunk);
  if (!backward || !text.empty()) return std::nullopt;
  return OverlappedPair{*action, *backward};
}

class Parser {
 public:
  explicit Parser(const std::string& file) : file_(file) {}

  Result<PipelineSchedule> Run(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ++line_;
      Line(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (schedule_.stages.empty() && mistakes_.empty()) {
      Add(0, "schedule.stage", "the schedule has no stages", "write for example 'stage 0: F0 B0'");
    }
    if (!mistakes_.empty()) return tl::make_unexpected(std::move(mistakes_));
    return std::move(schedule_);
  }

 private:
  void Add(std::size_t column, const char* code, std::string message, std::string hint) {
    mistakes_.push_back({code,
                         {file_, column == 0 ? 0 : line_, static_cast<int>(column)},
                         std::move(message),
                         std::move(hint)});
  }

  void Line(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == line.npos) return;
    const std::size_t colon = std::min(line.find(':'), line.size());
    PipelineSchedule::Stage stage;
    if (!ReadHead(line.substr(0, colon), stage.chunks)) {
      Add(1, "schedule.stage",
          fmt::format("this line should begin with 'stage {}:': {}", schedule_.stages.size(),
                      Quoted(line.substr(0, colon))),
          "if a stage holds more than the chunk with the stage's number, list the chunks: 'stage "
          "0 holds 0 3:'");
      stage.chunks = {static_cast<int>(schedule_.stages.size())};
    }
    const int chunk = stage.chunks == std::vector<int>{static_cast<int>(schedule_.stages.size())}
                          ? stage.chunks.front()
                          : -1;
    std::size_t at = std::min(colon + 1, line.size());
    while ((at = line.find_first_not_of(" \t\r", at)) != line.npos) {
      const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
      const std::string_view word = line.substr(at, end - at);
      if (const std::optional<ScheduleEntry> entry = ReadEntry(word, chunk)) {
        for (const Action& action : ActionsOf(*entry)) Count(action.micro_batch);
        stage.entries.push_back(*entry);
      } else {
        Add(at + 1, "schedule.action",
            fmt::format("the cell is not an action of a schedule: {}", Quoted(word)),
            chunk >= 0 ? "write F0, B0, I0, W0, F1+B0, unshard, reshard or reduce"
                       : "if a stage holds more than the chunk with the stage's number, write "
                         "F0.4 for micro-batch 0 in chunk 4");
      }
      at = end;
    }
    schedule_.stages.push_back(std::move(stage));
  }

  // Reads "stage 1" or "stage 1 holds 1 4".
  bool ReadHead(std::string_view head, std::vector<int>& chunks) const {
    const auto take = [&](std::string_view word) {
      while (head.starts_with(' ')) head.remove_prefix(1);
      if (!head.starts_with(word)) return false;
      head.remove_prefix(word.size());
      while (head.starts_with(' ')) head.remove_prefix(1);
      return true;
    };
    const int number = static_cast<int>(schedule_.stages.size());
    if (!take("stage") || TakeNumber(head) != number) return false;
    if (take("holds")) {
      while (!head.empty()) {
        const std::optional<int> chunk = TakeNumber(head);
        if (!chunk) return false;
        chunks.push_back(*chunk);
        take("");
      }
      return !chunks.empty();
    }
    chunks = {number};
    return head.empty();
  }

  void Count(int micro_batch) {
    schedule_.micro_batches = std::max(schedule_.micro_batches, micro_batch + 1);
  }

  const std::string& file_;
  int line_ = 0;
  PipelineSchedule schedule_;
  Diagnostics mistakes_;
};

}  // namespace

Result<PipelineSchedule> ParseSchedule(std::string_view text, const std::string& file) {
  return Parser(file).Run(text);
}

}  // namespace stepcast::parallel
