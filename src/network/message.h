#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/network/traffic.h"
#include "tl/expected.hpp"

// Collectives in message mode: every message of every step is an event, processed in time order.
//
// A message loads all links of its path at once, at the connection's rate, for bytes / rate. A link
// transmits its traffic in arrival order at its own bandwidth, and queues the excess. A message has
// left when every link of its path has transmitted all traffic that was queued before the message's
// end. The message's last byte arrives `latency` later. Connections that together do not exceed a
// link's bandwidth never affect each other, and an overloaded link is never idle.
//
// A worker sends over a connection when its previous message over this connection has left. Before
// a worker sends in another stage of the algorithm, the worker waits until all its messages have
// left. NCCL also limits the data in flight to eight slots per connection (NCCL_STEPS, 4 MiB).
// Inside a cluster, latency x bandwidth is below this limit, so the limit is not modeled.
namespace stepcast::network {

// The collectives of one communicator. Every rank starts its first call at `start`. A rank starts
// each later call when all of its workers are done and all of their messages have left.
struct MessageJob {
  std::vector<const Traffic*> calls{};
  // The calls of each rank, in order, by rank. Empty: every rank makes all calls in order. A
  // message can be received only in the call in which it was sent, so ranks with different sizes or
  // orders deadlock. Switches participate in every call.
  std::vector<std::vector<int>> orders{};
  Time start{};
};

struct MessageRun {
  std::vector<std::vector<Time>> rank_ends;  // indexed by [job][rank]
  std::vector<Time> ends;                    // by job: end of its last rank or message
  std::int64_t messages = 0;
  // The total time that messages waited for overloaded links. Zero without contention.
  Time queued{};
};

// The waiting ranks in a deadlock, and the peers that they wait for.
struct Deadlock {
  struct Waiting {
    int job = 0;
    int rank = 0;
    int call = 0;  // index in the job's calls
    int peer = 0;  // a rank or, from number ranks() on, a switch
    // The peer's current call, or -1 if the peer has made all of its calls.
    int peer_call = 0;
  };
  std::vector<Waiting> waiting{};  // one entry per waiting rank, in order
  std::string report;              // one line per waiting rank (at most ten), with both ends
};

// Runs jobs that share the links. The traffic of all jobs must be on `network`.
tl::expected<MessageRun, Deadlock> RunMessages(const Network& network,
                                               std::span<const MessageJob> jobs);

// Runs a single collective from time zero. Never deadlocks.
MessageRun RunMessages(const Traffic& traffic);

// A network in message mode that the caller advances event by event. The calls of a job are started
// one at a time, in any order and any number of times.
class MessageNetwork {
 public:
  // `jobs` has the possible calls of each job. The calls' traffic must be on `network`, and must
  // outlive this object.
  MessageNetwork(const Network& network, std::vector<std::vector<const Traffic*>> jobs);
  ~MessageNetwork();
  MessageNetwork(const MessageNetwork&) = delete;
  MessageNetwork& operator=(const MessageNetwork&) = delete;

  // Makes all ranks of `job` start `call` at time `at`, which must not be before the last processed
  // event. The job's previous call must have ended.
  void Start(std::uint32_t job, std::uint32_t call, Time at) { engine_->Start(job, call, at); }
  bool idle() const { return engine_->idle(); }
  // Returns the time of the next event. Requires !idle().
  Time next() const { return engine_->next(); }
  // Processes all events at next(), and appends the jobs whose call has ended to `ended`. A call
  // ends when every rank is done and every message has arrived. Requires !idle().
  void Advance(std::vector<std::uint32_t>& ended) { engine_->Advance(ended); }
  // Returns the number of messages sent so far.
  std::int64_t messages() const { return engine_->messages(); }

  class Engine {
   public:
    virtual ~Engine() = default;
    virtual void Start(std::uint32_t job, std::uint32_t call, Time at) = 0;
    virtual bool idle() const = 0;
    virtual Time next() const = 0;
    virtual void Advance(std::vector<std::uint32_t>& ended) = 0;
    virtual std::int64_t messages() const = 0;
  };

 private:
  std::vector<MessageJob> jobs_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace stepcast::network
