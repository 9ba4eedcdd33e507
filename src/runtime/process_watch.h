#pragma once

#include <poll.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/runtime/byte_stream.h"
#include "src/runtime/connection.h"
#include "src/runtime/watch_endpoint.h"
#include "src/runtime/watch_thread.h"

// The watch of a rank that is a process of its own: rank 0 hears of all others, and they of it.
namespace stepcast::runtime::watching {

// A neighbour at the other end of a connection.
struct Neighbour {
  Connection connection;
  Deadline heard;
  bool gone = false;  // sent kBye, or was lost and is accounted for
};

class ProcessWatch : public WatchThread {
 public:
  ProcessWatch(const std::vector<Place>& places, int rank, std::vector<Endpoint> endpoints,
               Listener listener, const WatchOptions& options, End end)
      : WatchThread(places, {rank}, options, std::move(end)),
        rank_(rank),
        endpoints_(std::move(endpoints)),
        listener_(std::move(listener)) {
    // Not all of it, so that all sides have ended by then.
    const milliseconds timeout = options.timeout;
    silence_ = timeout >= milliseconds(10'000) ? timeout - milliseconds(2'000) : timeout * 4 / 5;
  }

 protected:
  void Listen(std::vector<pollfd>& entries) override;
  void ReceiveMessages() override;
  void SendHeartbeats() override;
  milliseconds Silence() const override { return silence_; }
  // A socket that is closed before all that came was read takes back what was written last, so
  // both sides read up to the other's bye.
  void Leave() override;
  void Drain(milliseconds timeout);  // reads up to the byes

  void Send(Neighbour& neighbour, std::string_view message);

  void Meet(int rank, Connection connection) {
    neighbours_.emplace(rank, Neighbour{std::move(connection), steady_clock::now()});
  }

  virtual void OnMessage(int rank, MessageKind kind, ByteReader& reader) = 0;
  virtual void Lost(int rank, const std::string& sentence, Kind kind) = 0;

  const int rank_;
  const std::vector<Endpoint> endpoints_;  // by rank
  Listener listener_;                      // stays open: other ranks probe it
  milliseconds silence_;
  std::map<int, Neighbour> neighbours_;  // by rank
};

}  // namespace stepcast::runtime::watching
