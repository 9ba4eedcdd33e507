#include "src/network/analytic.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "src/base/check.h"
#include "src/base/rates.h"
#include "src/collective/ring.h"

namespace stepcast::network {
FlowDemand DemandOf(const Traffic& traffic) {
  const Time total = PriceAnalytically(traffic).total;
  FlowDemand demand;
  demand.work = std::min(total, traffic.transfer());
  demand.latency = total - demand.work;
  if (demand.work == Time()) return demand;
  for (const Traffic::Load& load : traffic.loads()) {
    const Bandwidth bandwidth = traffic.network().link(load.link).bandwidth;
    const double busy = load.bytes / static_cast<double>(bandwidth.bytes_per_second());
    const double share = std::min(1.0, busy / demand.work.seconds());
    demand.uses.push_back({.resource = static_cast<std::uint32_t>(load.link),
                           .share = engine::SharedResources::Share(share)});
  }
  return demand;
}

// The longest chains of messages in a collective's first loops, without other traffic. A message
// leaves when its step runs. The step waits for the step before it, for the message that it
// receives, and for the previous message on its connection to leave; in another stage, for all
// earlier messages of the worker.
class Chains {
 public:
  // `with_bytes`: if false, only latencies count. Requires 1 <= loops <= the list's.
  Chains(const Traffic& traffic, int loops, bool with_bytes);

  // [loop] the time at which the last message of the loops up to it has arrived.
  const std::vector<Time>& ends() const { return ends_; }
  // [connection] the longest chain from start to end that contains one of its messages.
  const std::vector<Time>& through() const { return through_; }
  // [connection] the time that its messages of one loop take to leave.
  const std::vector<Time>& busy() const { return busy_; }

 private:
  std::vector<Time> ends_;
  std::vector<Time> through_;
  std::vector<Time> busy_;
};

namespace {

using collective::kNobody;
using collective::Step;
using collective::StepList;

constexpr std::uint32_t kNone = 0xffffffff;

// A completed step, in an order that respects dependencies.
struct Done {
  std::uint32_t worker = 0;
  std::uint32_t received = kNone;     // the step that sent its message
  std::uint32_t connection = kNone;   // over which the step sends
  std::uint32_t stage_after = kNone;  // the step of another stage that sent before
  Time leaves{};                      // when the step's message starts to leave
  Time lasts{};                       // until it has left
};

// A connection's messages: sent ones wait in `sent` until they are received.
struct Line {
  std::vector<std::uint32_t> sent;  // steps
  std::size_t received = 0;
  Time free{};
  bool awaited = false;
};

// Runs the steps of the first loops, each as early as possible.
class Forwards {
 public:
  Forwards(const Traffic& traffic, int loops, bool with_bytes)
      : traffic_(traffic),
        list_(traffic.list()),
        connections_(traffic.connections()),
        loops_(loops),
        with_bytes_(with_bytes),
        lines_(connections_.size()),
        next_(static_cast<std::size_t>(list_.workers())),
        now_(next_.size()),
        last_send_(next_.size(), kNone),
        ends_(static_cast<std::size_t>(loops)),
        busy_(connections_.size()) {}

  // Call this function once; results are valid afterwards.
  void Run() {
    for (int worker = 0; worker < list_.workers(); ++worker) ready_.push_back(worker);
    while (!ready_.empty()) {
      const int worker = ready_.back();
      ready_.pop_back();
      Advance(worker);
    }
    for (int worker = 0; worker < list_.workers(); ++worker) {
      STEPCAST_CHECK(next_[static_cast<std::size_t>(worker)] == list_.StepsPerLoop(worker) * loops_,
                     "a worker must not wait forever");
    }
    for (std::size_t loop = 1; loop < ends_.size(); ++loop) {
      ends_[loop] = std::max(ends_[loop], ends_[loop - 1]);
    }
  }

  const std::vector<Done>& done() const { return done_; }
  std::vector<Time> TakeEnds() { return std::move(ends_); }
  std::vector<Time> TakeBusy() { return std::move(busy_); }

 private:
  // Runs the worker until it waits for a message.
  void Advance(int worker) {
    const auto at = static_cast<std::size_t>(worker);
    const std::int64_t per_loop = list_.StepsPerLoop(worker);
    for (; next_[at] < per_loop * loops_; ++next_[at]) {
      const Step step = list_.At(worker, next_[at]);
      Done record{.worker = static_cast<std::uint32_t>(worker)};
      if (step.receive_from != kNobody && !Receive(worker, step, record)) return;
      if (step.send_to != kNobody) Send(worker, step, next_[at] < per_loop, record);
      Time& end = ends_[static_cast<std::size_t>(next_[at] / per_loop)];
      end = std::max(end, now_[at]);
      done_.push_back(record);
    }
  }

  // Returns false if the message has not been sent yet.
  bool Receive(int worker, const Step& step, Done& record) {
    const std::uint32_t from = traffic_.Find(step.receive_from, worker);
    Line& line = lines_[from];
    if (line.received == line.sent.size()) {
      line.awaited = true;
      return false;
    }
    record.received = line.sent[line.received++];
    const Done& sender = done_[record.received];
    Time& now = now_[static_cast<std::size_t>(worker)];
    now = std::max(now, sender.leaves + sender.lasts + connections_[from].latency);
    return true;
  }

  void Send(int worker, const Step& step, bool in_first_loop, Done& record) {
    const auto at = static_cast<std::size_t>(worker);
    record.connection = traffic_.Find(worker, step.send_to);
    const Connection& connection = connections_[record.connection];
    Line& line = lines_[record.connection];
    now_[at] = std::max(now_[at], line.free);
    if (last_send_[at] != kNone) {
      const Done& last = done_[last_send_[at]];
      if (connections_[last.connection].stage != connection.stage) {
        record.stage_after = last_send_[at];
        now_[at] = std::max(now_[at], last.leaves + last.lasts);
      }
    }
    last_send_[at] = static_cast<std::uint32_t>(done_.size());
    record.leaves = now_[at];
    if (with_bytes_) record.lasts = Bytes(step.bytes) / connection.rate;
    line.free = record.leaves + record.lasts;
    if (in_first_loop) busy_[record.connection] += record.lasts;
    line.sent.push_back(static_cast<std::uint32_t>(done_.size()));
    if (line.awaited) {
      line.awaited = false;
      ready_.push_back(step.send_to);
    }
  }

  const Traffic& traffic_;
  const StepList& list_;
  std::span<const Connection> connections_;
  int loops_;
  bool with_bytes_;
  std::vector<Done> done_;
  std::vector<Line> lines_;
  std::vector<std::int64_t> next_;        // by worker: its next step
  std::vector<Time> now_;                 // when the worker's last step was carried out
  std::vector<std::uint32_t> last_send_;  // by worker: step
  std::vector<int> ready_;                // workers
  std::vector<Time> ends_, busy_;         // as in Chains
};

// The backward pass: the longest chain after each step, through a connection's next message, a
// message's arrival, and its departure in another stage. Gives Chains::through.
std::vector<Time> LongestThrough(std::span<const Connection> connections, std::size_t workers,
                                 const std::vector<Done>& done) {
  std::vector<Time> through(connections.size());
  std::vector<Time> after_step(workers);
  std::vector<Time> after_leaving(connections.size());
  std::vector<Time> after_arrival(done.size());
  std::vector<Time> after_stage(done.size());
  for (std::size_t i = done.size(); i-- > 0;) {
    const Done& step = done[i];
    Time& after = after_step[step.worker];
    if (step.connection != kNone) {
      Time& next_message = after_leaving[step.connection];
      const Time arrives = connections[step.connection].latency + after_arrival[i];
      after = std::max(after, step.lasts + std::max({next_message, arrives, after_stage[i]}));
      next_message = after;
      through[step.connection] = std::max(through[step.connection], step.leaves + after);
    }
    if (step.stage_after != kNone) after_stage[step.stage_after] = after;
    if (step.received != kNone) after_arrival[step.received] = after;
  }
  return through;
}

}  // namespace

Chains::Chains(const Traffic& traffic, int loops, bool with_bytes) {
  Forwards forwards(traffic, loops, with_bytes);
  forwards.Run();
  through_ = LongestThrough(traffic.connections(),
                            static_cast<std::size_t>(traffic.list().workers()), forwards.done());
  ends_ = forwards.TakeEnds();
  busy_ = forwards.TakeBusy();
}

namespace {

using collective::Ring;
using collective::StepList;

// The largest number of steps in the evaluated loops. If fewer than kFewLoops loops of a ring fit,
// the ring is evaluated by sums.
constexpr std::int64_t kMostSteps = 1 << 15;
constexpr std::int64_t kFewLoops = 4;
constexpr std::int64_t kFewOverlappingLoops = 2;

std::int64_t StepsOfLoop(const StepList& list) {
  std::int64_t steps = 0;
  for (int worker = 0; worker < list.workers(); ++worker) steps += list.StepsPerLoop(worker);
  return steps;
}

// The number of loops to evaluate.
int LoopsOf(const StepList& list) {
  const std::int64_t fit = kMostSteps / std::max<std::int64_t>(1, StepsOfLoop(list));
  const std::int64_t least = list.LoopsOverlap() ? kFewOverlappingLoops : kFewLoops;
  return static_cast<int>(std::min<std::int64_t>(list.loops(), std::max(least, fit)));
}

// The largest sum of `least` to `most` consecutive numbers around a circle. The window that ends
// before position e has the sum prefix(e) - prefix(b). A queue with rising values holds the
// smallest prefix among the admissible starts.
std::int64_t LargestWindow(const std::vector<std::int64_t>& circle, std::int64_t least,
                           std::int64_t most) {
  const auto n = static_cast<std::int64_t>(circle.size());
  std::int64_t whole = 0;
  for (const std::int64_t number : circle) whole += number;
  // Complete rounds are added as long as a round increases the sum, or is required.
  std::int64_t rounds = 0;
  if (whole > 0) {
    rounds = std::max<std::int64_t>(0, most / n - 1);
  } else {
    rounds = least / n;
  }
  least = std::max<std::int64_t>(0, least - rounds * n);
  most = std::min(most - rounds * n, 2 * n);

  std::vector<std::int64_t> prefix(static_cast<std::size_t>(3 * n) + 1);
  for (std::int64_t i = 0; i < 3 * n; ++i) {
    prefix[static_cast<std::size_t>(i) + 1] =
        prefix[static_cast<std::size_t>(i)] + circle[static_cast<std::size_t>(i % n)];
  }
  std::vector<std::int64_t> queue(prefix.size());
  std::size_t front = 0;
  std::size_t back = 0;
  std::int64_t largest = std::numeric_limits<std::int64_t>::min();
  for (std::int64_t end = least; end <= 3 * n; ++end) {
    const std::int64_t enters = end - least;
    const auto value = [&](std::int64_t i) { return prefix[static_cast<std::size_t>(i)]; };
    while (back > front && value(queue[back - 1]) >= value(enters)) --back;
    queue[back++] = enters;
    while (queue[front] < end - most) ++front;
    largest = std::max(largest, value(end) - value(queue[front]));
  }
  return largest + rounds * whole;
}

// See analytic.h. `with_bytes` false: only latencies, of one loop.
Time LongestWalk(const Traffic& traffic, const Ring& ring, int channel, bool with_bytes) {
  const std::int64_t loops = with_bytes ? ring.loops() : 1;
  const std::int64_t steps = ring.sends_per_chunk() * loops;
  const std::int64_t slices = ring.slices();
  std::vector<std::int64_t> on;      // [position]: latency + d
  std::vector<std::int64_t> leaves;  // [position]: d
  int worker = ring.WorkerOf(channel, 0, 0);
  for (int position = 0; position < ring.ranks(); ++position) {
    const Connection& connection = traffic.From(worker).front();
    const Time message =
        with_bytes ? Bytes(connection.bytes / connection.messages) / connection.rate : Time();
    leaves.push_back(message.picoseconds());
    on.push_back((connection.latency + message).picoseconds());
    worker = ring.NextOf(worker);
  }
  const std::int64_t slowest = *std::max_element(leaves.begin(), leaves.end());
  const std::int64_t filled = loops * (slices - 1) * slowest;
  const std::int64_t walking = LargestWindow(on, steps, steps);
  std::vector<std::int64_t> gain = on;
  for (std::int64_t& number : gain) number -= slices * slowest;
  const std::int64_t waiting = steps * slices * slowest + LargestWindow(gain, loops, steps);
  return Time::FromPicoseconds(filled + std::max(walking, waiting));
}

}  // namespace

AnalyticTime PriceAnalytically(const Traffic& traffic) {
  const StepList& list = traffic.list();
  AnalyticTime price{.bandwidth_bound = traffic.bandwidth_bound()};
  if (traffic.connections().empty()) return price;

  const auto* ring = dynamic_cast<const Ring*>(&list);
  if (ring != nullptr && ring->loops() * ring->ranks() * ring->StepsPerLoop(0) > kMostSteps &&
      kFewLoops * ring->ranks() * ring->StepsPerLoop(0) > kMostSteps) {
    for (int channel = 0; channel < ring->channels(); ++channel) {
      price.total = std::max(price.total, LongestWalk(traffic, *ring, channel, true));
      price.latency_bound =
          std::max(price.latency_bound, LongestWalk(traffic, *ring, channel, false));
    }
  } else {
    const int evaluated = LoopsOf(list);
    const Chains chains(traffic, evaluated, /*with_bytes=*/true);
    price.total = chains.ends().back();
    if (!list.LoopsOverlap() && list.loops() > evaluated) {
      // Loops may differ, because a chain continues in the next loop. The mean over the later half
      // is therefore used.
      const int half = evaluated / 2;
      const Time growth =
          chains.ends().back() - chains.ends()[static_cast<std::size_t>(evaluated - half - 1)];
      price.total += Time::FromPicoseconds(static_cast<std::int64_t>(
          static_cast<double>(growth.picoseconds()) / half * (list.loops() - evaluated)));
    }
    for (std::size_t i = 0; i < chains.busy().size(); ++i) {
      price.total = std::max(price.total,
                             chains.through()[i] + (list.loops() - evaluated) * chains.busy()[i]);
    }
    price.latency_bound = Chains(traffic, 1, /*with_bytes=*/false).ends().back();
  }
  // If some ranks are late, different stages of ranks may use a link at the same time.
  price.total = std::max(price.total, price.bandwidth_bound);
  STEPCAST_CHECK(price.total >= price.latency_bound && price.total >= price.bandwidth_bound,
                 "a collective must not be faster than its links");
  return price;
}

}  // namespace stepcast::network
