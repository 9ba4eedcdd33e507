#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/network/traffic.h"
#include "tl/expected.hpp"

// Collectives message by message: every message of every step is an event, processed in the order
// of time.
//
// A message sent over a connection is put on all links of its path at once, at the connection's
// rate, bytes / rate long. A link carries what is put on it in the order in which that happens, at
// its own bandwidth; where connections together put more on it than it carries, it queues. A
// message has left when every link of its path has carried what was put on it until then, and its
// last byte arrives `latency` later. So connections that together use no more than a link has never
// notice each other, a crowded link is never idle, and nothing is carried twice.
//
// A worker sends over a connection when its last message over it has left, and in another stage of
// the algorithm when all it sent has left: it works ahead of its receiver only as far as messages
// are in flight. NCCL bounds that, too, by eight slots a connection (NCCL_STEPS, 4 MiB); links
// inside a cluster hold less than that, latency x bandwidth, so there are no credits.
namespace stepcast::network {

// The collectives of one communicator. Every rank enters its first at `start`, and its next one
// when all its workers are done and all that it sent has left.
struct MessageJob {
  std::vector<const Traffic*> calls{};
  // [rank]: which calls it makes, in its order; empty: all of them, in their order. A message of a
  // call is received in that call alone, so ranks that disagree on the size, or on the order, wait
  // for ever. The switches take part in every call.
  std::vector<std::vector<int>> orders{};
  Time start{};
};

struct MessageRun {
  std::vector<std::vector<Time>> rank_ends;  // [job][rank]
  std::vector<Time> ends;                    // [job]: the last of its ranks and messages
  std::int64_t messages = 0;
  // How long messages waited on crowded links, all together: zero where nothing contends.
  Time queued{};
};

// Ranks that wait for ever.
struct Deadlock {
  struct Waiting {
    int job = 0;
    int rank = 0;
    int call = 0;  // of the job's calls
    int peer = 0;  // the peer it waits for: a rank, or from ranks() on a switch
    // The peer's present call, or -1 where it has made all of its calls.
    int peer_call = 0;
  };
  std::vector<Waiting> waiting{};  // a line for each rank that waits, in order
  std::string report;              // names both sides, a line each, ten at most
};

// Jobs share the links. All traffics are on `network`.
tl::expected<MessageRun, Deadlock> RunMessages(const Network& network,
                                               std::span<const MessageJob> jobs);

// One collective alone, from time zero. It never waits for ever.
MessageRun RunMessages(const Traffic& traffic);

// The same network, driven by its caller: a job's calls are started one at a time, in any order and
// any number of times, and events are drawn by next() and Advance.
class MessageNetwork {
 public:
  // [job]: the calls it may make. All traffics are on `network`, and outlive this.
  MessageNetwork(const Network& network, std::vector<std::vector<const Traffic*>> jobs);
  ~MessageNetwork();
  MessageNetwork(const MessageNetwork&) = delete;
  MessageNetwork& operator=(const MessageNetwork&) = delete;

  // All ranks of `job` enter `call` at `at`, which is not before what has been advanced to. Its
  // last call must have ended.
  void Start(std::uint32_t job, std::uint32_t call, Time at) { engine_->Start(job, call, at); }
  bool idle() const { return engine_->idle(); }
  // The time of the next event. Requires !idle().
  Time next() const { return engine_->next(); }
  // Lets all happen that happens at next(), and appends the jobs whose call ended then: every rank
  // is done and every message has arrived. Requires !idle().
  void Advance(std::vector<std::uint32_t>& ended) { engine_->Advance(ended); }
  // How many were sent so far.
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
