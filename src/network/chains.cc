#include "src/network/chains.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/rates.h"

namespace stepcast::network {
namespace {

using collective::kNobody;
using collective::Step;
using collective::StepList;

constexpr std::uint32_t kNone = 0xffffffff;

// A step that was carried out, in an order in which nothing comes before what it waits for.
struct Done {
  std::uint32_t worker = 0;
  std::uint32_t received = kNone;     // the step that sent its message
  std::uint32_t connection = kNone;   // over which it sends
  std::uint32_t stage_after = kNone;  // the step of another stage that sent before
  Time leaves{};                      // when its message starts to leave
  Time lasts{};                       // until it has left
};

// A connection's messages: sent ones wait in `sent` until they are received.
struct Line {
  std::vector<std::uint32_t> sent;  // steps
  std::size_t received = 0;
  Time free{};
  bool awaited = false;
};

// Carries out the steps of the first loops, each as soon as it may.
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

  // Once. Then the rest is known.
  void Run() {
    for (int worker = 0; worker < list_.workers(); ++worker) ready_.push_back(worker);
    while (!ready_.empty()) {
      const int worker = ready_.back();
      ready_.pop_back();
      Advance(worker);
    }
    for (int worker = 0; worker < list_.workers(); ++worker) {
      STEPCAST_CHECK(next_[static_cast<std::size_t>(worker)] == list_.StepsPerLoop(worker) * loops_,
                     "no worker waits for ever");
    }
    for (std::size_t loop = 1; loop < ends_.size(); ++loop) {
      ends_[loop] = std::max(ends_[loop], ends_[loop - 1]);
    }
  }

  const std::vector<Done>& done() const { return done_; }
  std::vector<Time> TakeEnds() { return std::move(ends_); }
  std::vector<Time> TakeBusy() { return std::move(busy_); }

 private:
  // Until the worker waits for a message.
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

  // False: the message has not been sent yet.
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

// Backwards: how much follows a step, a connection's next message, a message's arrival, and its
// leaving in another stage. What comes of it is Chains::through.
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

}  // namespace stepcast::network
