#include "src/planner/answers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/base/stop.h"
#include "src/messaging/byte_stream.h"

namespace stepcast::planner {
namespace {

// Escapes characters that would end a key or a line.
void AppendEscaped(std::string& text, std::string_view part, bool key) {
  const std::string_view special = key ? "\n\\=" : "\n\\";
  for (;;) {
    const std::size_t end = std::min(part.find_first_of(special), part.size());
    text.append(part.substr(0, end));
    if (end == part.size()) return;
    text += '\\';
    text += part[end] == '\n' ? 'n' : part[end] == '=' ? 'e' : '\\';
    part.remove_prefix(end + 1);
  }
}

std::string Unescaped(std::string_view part) {
  std::string text;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '\\' && i + 1 < part.size()) {
      const char escaped = part[++i];
      text += escaped == 'n' ? '\n' : escaped == 'e' ? '=' : escaped;
    } else {
      text += part[i];
    }
  }
  return text;
}

}  // namespace

std::string ToText(const Settings& settings) {
  std::string text;
  for (const auto& [key, value] : settings) {
    AppendEscaped(text, key, true);
    text += '=';
    AppendEscaped(text, value, false);
    text += '\n';
  }
  return text;
}

Settings ToSettings(const std::string& text) {
  Settings settings;
  std::string_view left = text;
  for (std::size_t end = 0; (end = left.find('\n')) != std::string_view::npos;
       left.remove_prefix(end + 1)) {
    const std::string_view line = left.substr(0, end);
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string_view key = line.substr(0, equals);
    const std::string_view value = line.substr(std::min(equals + 1, line.size()));
    if (line.find('\\') == std::string_view::npos) {
      settings.emplace_back(key, value);
    } else {
      settings.emplace_back(Unescaped(key), Unescaped(value));
    }
  }
  return settings;
}

tl::expected<void, std::string> Evaluate(const EvaluationList& list, WorkerPool& pool,
                                         ResultStore* store) {
  const auto& key = list.key ? list.key : list.item;
  std::vector<std::int64_t> left;  // what the store does not know; unused without a store
  if (store != nullptr) {
    for (std::int64_t i = 0; i < list.count; ++i) {
      const std::optional<std::string> known = store->Find(key(i));
      if (!known) {
        left.push_back(i);
      } else if (!list.done(i, *known)) {
        return {};
      }
    }
  }
  const auto at = [&](std::int64_t index) {
    return store == nullptr ? index : left[static_cast<std::size_t>(index)];
  };
  const auto count = store == nullptr ? list.count : static_cast<std::int64_t>(left.size());
  if (list.begun) list.begun(list.count - count);
  if (count > 0) {
    const auto run = pool.Run({.count = count,
                               .item = [&](std::int64_t index) { return list.item(at(index)); },
                               .done =
                                   [&](std::int64_t index, std::string result) {
                                     const bool more = list.done(at(index), result);
                                     if (store == nullptr) return more;
                                     store->Put(key(at(index)), std::move(result));
                                     return more && store->good();
                                   }});
    if (!run) return tl::unexpected(run.error().message);
  }
  if (store == nullptr) return {};
  return store->Finish();
}

namespace {

using messaging::ByteReader;
using messaging::ByteWriter;

enum class Question : std::uint8_t { kScreen, kScreenMembers, kSharpen, kSimulate };

// Number of families per work item, because first bounds take microseconds.
constexpr std::int64_t kBlock = 64;

// Orders blocks in long steps through the whole space, again and again. If a search stops early,
// the blocks seen so far come from all regions.
class BlockOrder {
 public:
  explicit BlockOrder(std::int64_t blocks) : blocks_(blocks) {
    constexpr double kGoldenSection = 0.6180339887498949;
    step_ = std::max<std::int64_t>(std::llround(kGoldenSection * static_cast<double>(blocks)), 1);
    while (std::gcd(step_, blocks_) != 1) ++step_;
  }
  std::int64_t At(std::int64_t place) const { return place * step_ % blocks_; }

 private:
  std::int64_t blocks_, step_;
};

// `number`: of a family or a plan.
std::string ItemOf(Question question, std::int64_t number) {
  ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(question));
  writer.Signed(number);
  return writer.Take();
}

std::int64_t FamiliesOf(const SearchProblem& problem) {
  return problem.families.empty() ? problem.plans
                                  : static_cast<std::int64_t>(problem.families.size());
}
// The first plan of a family; for the index after the last family, the number of plans.
std::int64_t FirstOf(const SearchProblem& problem, std::int64_t family) {
  if (problem.families.empty()) return family;
  const auto at = static_cast<std::size_t>(family);
  return at < problem.families.size() ? problem.families[at] : problem.plans;
}

// A family with a single plan is screened as that plan.
Screened ScreenFamily(const SearchProblem& problem, std::int64_t family) {
  const std::int64_t first = FirstOf(problem, family);
  if (FirstOf(problem, family + 1) - first == 1) return problem.screen(first);
  return problem.screen_family(static_cast<std::size_t>(family));
}

void Write(const Screened& screened, ByteWriter& writer) {
  writer.Text(screened.illegal_code);
  writer.Text(screened.illegal_message);
  writer.Text(screened.illegal_hint);
  writer.Signed(screened.facts.gpus);
  writer.Signed(screened.facts.tokens);
  writer.Signed(screened.facts.capacity.count());
  writer.Signed(screened.facts.passes);
  writer.Number(std::bit_cast<std::uint64_t>(screened.facts.idle_watts));
  writer.Number(screened.same_as_another ? 1 : 0);
  writer.Text(screened.program);
  writer.Signed(screened.bound.step_time.picoseconds());
  writer.Number(std::bit_cast<std::uint64_t>(screened.bound.joules));
  writer.Signed(screened.bound.memory.count());
  writer.Signed(screened.bound.needed.count());
  writer.Number(screened.bound.fits ? 1 : 0);
  writer.Number(screened.bound.fits_host ? 1 : 0);
  writer.Number(std::bit_cast<std::uint64_t>(screened.bound.fit_probability));
  writer.Signed(screened.bound.over.count());
}

void Read(ByteReader& reader, Screened& screened) {
  screened.illegal_code = reader.Text();
  screened.illegal_message = reader.Text();
  screened.illegal_hint = reader.Text();
  screened.facts.gpus = reader.Signed();
  screened.facts.tokens = reader.Signed();
  screened.facts.capacity = Bytes(reader.Signed());
  screened.facts.passes = reader.Signed();
  screened.facts.idle_watts = std::bit_cast<double>(reader.Number());
  screened.same_as_another = reader.Number() != 0;
  screened.program = reader.Text();
  screened.bound.step_time = Picoseconds(reader.Signed());
  screened.bound.joules = std::bit_cast<double>(reader.Number());
  screened.bound.memory = Bytes(reader.Signed());
  screened.bound.needed = Bytes(reader.Signed());
  screened.bound.fits = reader.Number() != 0;
  screened.bound.fits_host = reader.Number() != 0;
  screened.bound.fit_probability = std::bit_cast<double>(reader.Number());
  screened.bound.over = Bytes(reader.Signed());
}

void Write(const Outcome& outcome, ByteWriter& writer) {
  writer.Text(outcome.illegal_message);
  writer.Signed(outcome.step_time.picoseconds());
  writer.Number(std::bit_cast<std::uint64_t>(outcome.joules));
  writer.Number(std::bit_cast<std::uint64_t>(outcome.tokens_per_second_per_gpu));
  writer.Signed(outcome.memory.count());
  writer.Signed(outcome.reserved.count());
  writer.Signed(outcome.outside.count());
  writer.Number(outcome.fits ? 1 : 0);
  writer.Number(outcome.fits_host ? 1 : 0);
  writer.Number(static_cast<std::uint64_t>(outcome.verdict));
  writer.Number(std::bit_cast<std::uint64_t>(outcome.fit_probability));
  writer.Signed(outcome.over.count());
  writer.Signed(outcome.flushes);
}

void Read(ByteReader& reader, Outcome& outcome) {
  outcome.illegal_message = reader.Text();
  outcome.step_time = Picoseconds(reader.Signed());
  outcome.joules = std::bit_cast<double>(reader.Number());
  outcome.tokens_per_second_per_gpu = std::bit_cast<double>(reader.Number());
  outcome.memory = Bytes(reader.Signed());
  outcome.reserved = Bytes(reader.Signed());
  outcome.outside = Bytes(reader.Signed());
  outcome.fits = reader.Number() != 0;
  outcome.fits_host = reader.Number() != 0;
  outcome.verdict = static_cast<forecast::MemoryVerdict>(reader.Number());
  outcome.fit_probability = std::bit_cast<double>(reader.Number());
  outcome.over = Bytes(reader.Signed());
  outcome.flushes = static_cast<int>(reader.Signed());
}

tl::unexpected<std::string> Unreadable() {
  return tl::unexpected(std::string(
      "the store is damaged: a result cannot be read. Remove the store to start again"));
}

}  // namespace

Work WorkOf(const SearchProblem& problem) {
  return [&problem](const std::string& item) {
    ByteReader reader(item);
    const auto question = static_cast<Question>(reader.Number());
    const std::int64_t number = reader.Signed();
    ByteWriter writer;
    switch (question) {
      case Question::kScreen:
        for (std::int64_t f = number; f < std::min(number + kBlock, FamiliesOf(problem)); ++f) {
          StopPoint();
          Write(ScreenFamily(problem, f), writer);
        }
        break;
      case Question::kScreenMembers:
        for (std::int64_t p = FirstOf(problem, number); p < FirstOf(problem, number + 1); ++p) {
          StopPoint();
          Write(problem.screen(p), writer);
        }
        break;
      case Question::kSharpen:
        Write(problem.sharpen(number), writer);
        break;
      case Question::kSimulate:
        Write(problem.simulate(number), writer);
        break;
    }
    return writer.Take();
  };
}

Answers::Answers(const SearchProblem& problem, WorkerPool& pool, ResultStore* store,
                 std::function<std::string(std::int64_t)> key)
    : problem_(problem), pool_(pool), store_(store), key_(std::move(key)) {
  STEPCAST_CHECK(store == nullptr || key_, "a store needs keys");
}

messaging::Attempt<void> Answers::RunUntilStopped(const WorkList& list) {
  try {
    return pool_.Run(list);
  } catch (const Stopped&) {
    stopped_ = true;
    return {};
  }
}

tl::expected<void, std::string> Answers::EvaluateUntilStopped(const EvaluationList& list) {
  try {
    return Evaluate(list, pool_, store_);
  } catch (const Stopped&) {
    stopped_ = true;
    if (store_ != nullptr) return store_->Finish();
    return {};
  }
}

tl::expected<void, std::string> Answers::Screen(
    const std::function<bool(std::int64_t, Screened)>& done) {
  bool readable = true;
  const std::int64_t families = FamiliesOf(problem_);
  const std::int64_t blocks = (families + kBlock - 1) / kBlock;
  const BlockOrder order(blocks);
  const auto run = RunUntilStopped(
      {.count = blocks,
       .item =
           [&](std::int64_t place) { return ItemOf(Question::kScreen, order.At(place) * kBlock); },
       .done =
           [&](std::int64_t place, const std::string& result) {
             const std::int64_t block = order.At(place);
             ByteReader reader(result);
             bool more = true;
             for (std::int64_t f = block * kBlock; f < std::min((block + 1) * kBlock, families);
                  ++f) {
               Screened screened;
               Read(reader, screened);
               more = done(f, std::move(screened)) && more;
             }
             readable = !reader.bad() && reader.at_end();
             return readable && more;
           }});
  if (!run) return tl::unexpected(run.error().message);
  if (!readable) return Unreadable();
  return {};
}

tl::expected<std::vector<std::vector<Screened>>, std::string> Answers::ScreenMembers(
    const std::vector<std::int64_t>& families) {
  bool readable = true;
  std::vector<std::vector<Screened>> members(families.size());
  const auto family = [&](std::int64_t item) { return families[static_cast<std::size_t>(item)]; };
  const auto run = RunUntilStopped(
      {.count = static_cast<std::int64_t>(families.size()),
       .item = [&](std::int64_t item) { return ItemOf(Question::kScreenMembers, family(item)); },
       .done =
           [&](std::int64_t item, const std::string& result) {
             ByteReader reader(result);
             std::vector<Screened>& plans = members[static_cast<std::size_t>(item)];
             plans.resize(static_cast<std::size_t>(FirstOf(problem_, family(item) + 1) -
                                                   FirstOf(problem_, family(item))));
             for (Screened& plan : plans) Read(reader, plan);
             readable = !reader.bad() && reader.at_end();
             return readable;
           }});
  if (!run) return tl::unexpected(run.error().message);
  if (!readable) return Unreadable();
  return members;
}

template <typename Answer>
tl::expected<std::vector<Answer>, std::string> Answers::Ask(
    const std::vector<std::int64_t>& plans) {
  constexpr bool kForecast = std::is_same_v<Answer, Outcome>;
  constexpr Question kQuestion = kForecast ? Question::kSimulate : Question::kSharpen;
  std::vector<Answer> answers(plans.size());
  if (plans.empty()) return answers;
  const auto plan = [&](std::int64_t index) { return plans[static_cast<std::size_t>(index)]; };
  bool readable = true;
  EvaluationList list{.count = static_cast<std::int64_t>(plans.size()),
                      .item = [&](std::int64_t index) { return ItemOf(kQuestion, plan(index)); },
                      .done =
                          [&](std::int64_t index, const std::string& result) {
                            ByteReader reader(result);
                            Read(reader, answers[static_cast<std::size_t>(index)]);
                            readable = !reader.bad() && reader.at_end();
                            return readable;
                          },
                      .begun = {}};
  if (store_ != nullptr) {
    list.key = [&](std::int64_t index) {
      return (kForecast ? "forecast\n" : "bound\n") + key_(plan(index));
    };
  }
  STEPCAST_TRY(EvaluateUntilStopped(list));
  if (!readable) {
    if (store_ != nullptr) store_->MarkDamaged();
    return Unreadable();
  }
  return answers;
}

tl::expected<std::vector<Screened>, std::string> Answers::Sharpen(
    const std::vector<std::int64_t>& plans) {
  return Ask<Screened>(plans);
}

tl::expected<std::vector<Outcome>, std::string> Answers::Simulate(
    const std::vector<std::int64_t>& plans) {
  return Ask<Outcome>(plans);
}

}  // namespace stepcast::planner
