#include "src/calibrate/session.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/check.h"
#include "src/base/quantity.h"

namespace stepcast::calibrate {
namespace {

constexpr std::string_view kFirstLine = "stepcast calibration state 1";
constexpr std::string_view kLastLine = "end";

std::string OneLine(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return line;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

template <typename Number>
bool Parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string SummaryText(const Summary& summary) {
  return fmt::format("{}\t{}\t{}\t{}\t{}", summary.median, summary.low, summary.high,
                     summary.spread, summary.count);
}

std::optional<Summary> ParseSummary(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text, '\t');
  Summary summary;
  if (parts.size() != 5 || !Parse(parts[0], summary.median) || !Parse(parts[1], summary.low) ||
      !Parse(parts[2], summary.high) || !Parse(parts[3], summary.spread) ||
      !Parse(parts[4], summary.count)) {
    return std::nullopt;
  }
  const bool sound = std::isfinite(summary.median) && summary.median > 0 && summary.low > 0 &&
                     summary.low <= summary.high && std::isfinite(summary.high) &&
                     summary.spread >= 0 && std::isfinite(summary.spread) && summary.count > 0;
  if (!sound) return std::nullopt;
  return summary;
}

MeasurementState::MeasurementState(std::string_view binding) : binding_(OneLine(binding)) {}

std::optional<MeasurementState> MeasurementState::Parse(std::string_view text) {
  std::vector<std::string_view> lines = Split(text, '\n');
  if (lines.size() < 4 || lines[0] != kFirstLine || !lines.back().empty() ||
      lines[lines.size() - 2] != kLastLine) {
    return std::nullopt;
  }
  MeasurementState state(lines[1]);
  for (std::size_t i = 2; i + 2 < lines.size(); ++i) {
    const std::size_t tab = lines[i].find('\t');
    if (tab == std::string_view::npos) return std::nullopt;
    const std::optional<Summary> summary = ParseSummary(lines[i].substr(tab + 1));
    if (!summary) return std::nullopt;
    state.Add(std::string(lines[i].substr(0, tab)), *summary);
  }
  return state;
}

std::string MeasurementState::Text() const {
  std::string text = fmt::format("{}\n{}\n", kFirstLine, binding_);
  for (const auto& [key, summary] : results_) {
    text += fmt::format("{}\t{}\n", key, SummaryText(summary));
  }
  return fmt::format("{}{}\n", text, kLastLine);
}

const Summary* MeasurementState::Find(const std::string& key) const {
  const auto found = results_.find(OneLine(key));
  return found == results_.end() ? nullptr : &found->second;
}

void MeasurementState::Add(const std::string& key, const Summary& summary) {
  results_.insert_or_assign(OneLine(key), summary);
}

namespace {

using runtime::Attempt;
using runtime::Failure;

// Rank 0's next request: "2 1 0 3 4" means two measured steps after one of warm-up, for the keys 0,
// 3 and 4. Empty: the end.
struct Order {
  int steps = 0;
  int warmup = 0;
  std::vector<std::size_t> wanted;
};

std::string Text(const Order& order) {
  return fmt::format("{} {} {}", order.steps, order.warmup, fmt::join(order.wanted, " "));
}

std::optional<Order> ParseOrder(std::string_view text) {
  std::vector<std::size_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::size_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return std::nullopt;
    numbers.push_back(number);
    at = next;
    if (at < end) ++at;
  }
  if (numbers.size() < 3) return std::nullopt;
  return Order{static_cast<int>(numbers[0]),
               static_cast<int>(numbers[1]),
               {numbers.begin() + 2, numbers.end()}};
}

// Benchmarks of some of the sizes, given by position.
Session::Build ChosenOf(const std::vector<std::int64_t>& sizes,
                        const std::function<Benchmark(const std::vector<std::int64_t>&)>& build) {
  return [&](const std::vector<std::size_t>& wanted) {
    std::vector<std::int64_t> chosen;
    for (const std::size_t i : wanted) chosen.push_back(sizes[i]);
    return build(chosen);
  };
}

Failure Misunderstood() { return {"rank 0 sent an unknown message", false}; }

Time TimeOf(double seconds) { return Picoseconds(static_cast<std::int64_t>(seconds * 1e12)); }

// Device time of one batch of repetitions. Completed results are stored after each batch, so a
// calibration that is interrupted repeatedly still progresses.
constexpr Time kBatch = Seconds(1);

}  // namespace

struct Session::Running {
  std::vector<std::vector<double>> samples;  // by key
  std::vector<std::size_t> wanted;           // of the batch in progress
  std::size_t per_step = 1;                  // least number of samples per step for a key
};

Session::Session(runtime::Job& job, Runner runner, MeasurementState state, Observer observer)
    : job_(job),
      runner_(std::move(runner)),
      state_(std::move(state)),
      observer_(std::move(observer)) {}

Attempt<void> Session::TakeSamples(const Benchmark& benchmark, int steps,
                                   const program::Timeline& timeline, Running& running) {
  auto packed = job_.Gather(PackRecords(benchmark, timeline));
  if (!packed) return tl::unexpected(packed.error());
  if (job_.place().rank != 0) return {};
  auto samples = SamplesOf(benchmark, steps, *packed);
  if (!samples) return tl::unexpected(samples.error());
  STEPCAST_CHECK(samples->size() == running.wanted.size(),
                 "each measured quantity must have a probe");
  running.per_step = samples->front().size();
  for (std::size_t i = 0; i < samples->size(); ++i) {
    running.per_step = std::min(running.per_step, (*samples)[i].size());
    std::vector<double>& all = running.samples[running.wanted[i]];
    all.insert(all.end(), (*samples)[i].begin(), (*samples)[i].end());
  }
  running.per_step = std::max<std::size_t>(running.per_step / static_cast<std::size_t>(steps), 1);
  return {};
}

Attempt<std::vector<Summary>> Session::Measure(const std::vector<std::string>& keys,
                                               Repetition repetition, Time expected,
                                               const Build& build) {
  const bool first_rank = job_.place().rank == 0;
  // Long operations scatter less and cost more.
  repetition.least = LeastRuns(repetition.least, expected.seconds(), repetition.briefly);
  if (repetition.briefly) repetition.limit = TimeOf(repetition.limit.seconds() / 4);

  Running running;
  running.samples.resize(keys.size());
  while (true) {
    Order order;
    if (first_rank) {
      std::size_t samples = 0;
      double step_time = 0;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (state_.Find(keys[i]) != nullptr) continue;
        std::size_t more = repetition.least;
        if (!running.samples[i].empty()) {
          const Summary so_far = Summarise(running.samples[i]);
          const double spent = so_far.median * static_cast<double>(so_far.count);
          more = NextBatch(repetition, so_far, TimeOf(spent));
          step_time += so_far.median * static_cast<double>(running.per_step);
        }
        samples = std::max(samples, more);
        order.wanted.push_back(i);
      }
      const std::size_t steps = (samples + running.per_step - 1) / running.per_step;
      const double affordable = step_time > 0 ? kBatch.seconds() / step_time : 1e6;
      order.steps = std::max(1, static_cast<int>(std::min(static_cast<double>(steps), affordable)));
      order.warmup = expected.seconds() >= kNeedsNoWarmup ? 0 : 1;
      if (!order.wanted.empty() && observer_.progress) {
        observer_.progress(keys[order.wanted.front()]);
      }
    }
    const auto text = job_.Broadcast(order.wanted.empty() ? "" : Text(order));
    if (!text) return tl::unexpected(text.error());
    if (text->empty()) break;
    const auto asked = ParseOrder(*text);
    if (!asked) return tl::unexpected(Misunderstood());
    running.wanted = asked->wanted;
    const Benchmark benchmark = build(asked->wanted);
    const auto timeline = runner_(benchmark.program, asked->warmup, asked->steps);
    if (!timeline) return tl::unexpected(timeline.error());
    if (auto taken = TakeSamples(benchmark, asked->steps, *timeline, running); !taken) {
      return tl::unexpected(taken.error());
    }
    if (!first_rank) continue;
    if (auto kept = KeepCompleted(keys, repetition, running); !kept) {
      return tl::unexpected(kept.error());
    }
  }
  const auto told = Decide(keys);
  if (!told) return tl::unexpected(told.error());
  std::vector<Summary> summaries;
  std::string_view rest = *told;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const auto summary = ParseSummary(rest.substr(0, end));
    if (!summary || end == std::string_view::npos) return tl::unexpected(Misunderstood());
    summaries.push_back(*summary);
    rest.remove_prefix(end + 1);
  }
  if (summaries.size() != keys.size()) return tl::unexpected(Misunderstood());
  return summaries;
}

// Rank 0 stores results that became precise enough in this batch.
Attempt<void> Session::KeepCompleted(const std::vector<std::string>& keys,
                                     const Repetition& repetition, const Running& running) {
  bool any = false;
  for (const std::size_t i : running.wanted) {
    const Summary so_far = Summarise(running.samples[i]);
    const Time time = TimeOf(so_far.median * static_cast<double>(so_far.count));
    if (!Enough(repetition, so_far, time)) continue;
    state_.Add(keys[i], so_far);
    any = true;
  }
  if (!any || !observer_.save) return {};
  return observer_.save(state_.Text());
}

// Rank 0 sends its knowledge of the keys.
Attempt<std::string> Session::Decide(const std::vector<std::string>& keys) {
  std::string text;
  if (job_.place().rank == 0) {
    for (const std::string& key : keys) {
      const Summary* summary = state_.Find(key);
      STEPCAST_CHECK(summary != nullptr, "rank 0 must have measured all quantities");
      text += SummaryText(*summary) + "\n";
    }
  }
  return job_.Broadcast(std::move(text));
}

Attempt<double> Session::Settle(const std::string& key, const std::function<double()>& now) {
  if (job_.place().rank == 0 && state_.Find(key) == nullptr) {
    state_.Add(key, Summarise({now()}));
    if (observer_.save) {
      if (auto saved = observer_.save(state_.Text()); !saved) return tl::unexpected(saved.error());
    }
  }
  const auto told = Decide({key});
  if (!told) return tl::unexpected(told.error());
  const auto summary = ParseSummary(std::string_view(*told).substr(0, told->find('\n')));
  if (!summary) return tl::unexpected(Misunderstood());
  return summary->median;
}

Attempt<std::vector<std::pair<std::int64_t, Summary>>> Session::Climb(
    const Ladder& ladder, const Repetition& repetition,
    const std::function<Benchmark(const std::vector<std::int64_t>& sizes)>& build) {
  std::vector<std::pair<std::int64_t, Summary>> results;
  double spent = 0;
  std::size_t done = 0;
  while (done < ladder.sizes.size()) {
    const std::size_t count =
        std::min(results.empty() ? ladder.first : ladder.next, ladder.sizes.size() - done);
    std::vector<std::int64_t> sizes(
        ladder.sizes.begin() + static_cast<std::ptrdiff_t>(done),
        ladder.sizes.begin() + static_cast<std::ptrdiff_t>(done + count));
    double expected = 0;
    if (!results.empty()) {
      const auto last_size = results.back().first;
      const auto& last = results.back().second;
      const auto expect = [&](std::int64_t size) {
        return last.median *
               std::pow(static_cast<double>(size) / static_cast<double>(last_size), ladder.power);
      };
      double cost = 0;
      for (const std::int64_t size : sizes) {
        cost += expect(size) * static_cast<double>(repetition.least + 1);
      }
      while (!sizes.empty() && expect(sizes.back()) > ladder.longest.seconds()) sizes.pop_back();
      if (sizes.empty() || spent + cost > ladder.budget.seconds()) break;
      expected = expect(sizes.back());
    }
    std::vector<std::string> keys;
    for (const std::int64_t size : sizes) {
      keys.push_back(fmt::format("{}, {}", ladder.what, ladder.show(size)));
    }
    const auto summaries = Measure(keys, repetition, TimeOf(expected), ChosenOf(sizes, build));
    if (!summaries) return tl::unexpected(summaries.error());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Summary& summary = (*summaries)[i];
      results.emplace_back(sizes[i], summary);
      spent += summary.median * static_cast<double>(summary.count + 1);
    }
    done += sizes.size();
    if (sizes.size() < count) break;
  }
  return results;
}

Attempt<std::vector<std::pair<std::int64_t, Summary>>> Session::Cover(
    const std::string& what, const SizePlan& plan, Time budget, const Repetition& repetition,
    const std::function<Benchmark(const std::vector<std::int64_t>& sizes)>& build, double& spent) {
  std::vector<std::pair<std::int64_t, Summary>> results;
  MeasuredSizes measured;
  double left = budget.seconds();
  while (true) {
    const NextSizes next = Next(plan, repetition.least, measured, left);
    if (next.sizes.empty()) break;
    std::vector<std::string> keys;
    for (const std::int64_t size : next.sizes) {
      keys.push_back(fmt::format("{}, {}", what, FormatBytes(Bytes(size))));
    }
    Repetition own = repetition;
    own.briefly = next.briefly;
    const auto summaries = Measure(keys, own, TimeOf(next.expected), ChosenOf(next.sizes, build));
    if (!summaries) return tl::unexpected(summaries.error());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Summary& summary = (*summaries)[i];
      results.emplace_back(next.sizes[i], summary);
      measured.emplace_back(next.sizes[i], summary.median);
      const std::size_t warmup = next.expected >= kNeedsNoWarmup ? 0 : 1;
      const double time = summary.median * static_cast<double>(summary.count + warmup);
      left -= time;
      spent += time;
    }
    std::sort(measured.begin(), measured.end());
    left -= plan.program;
    spent += plan.program;
  }
  std::sort(results.begin(), results.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return results;
}

}  // namespace stepcast::calibrate
