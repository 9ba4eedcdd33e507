#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/runtime/job.h"
#include "src/runtime/mpi_session.h"

namespace stepcast::runtime {
namespace {

constexpr int kTag = 1;
// MPI counts in int, so longer messages are split.
constexpr std::size_t kPiece = std::size_t{1} << 30;

// Waits without occupying a core, so that an idle rank does not slow down one that computes.
int WaitFor(MPI_Request& request) {
  std::chrono::microseconds pause(10);
  constexpr std::chrono::microseconds kLongest(1000);
  for (;;) {
    int done = 0;
    if (const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        code != MPI_SUCCESS || done != 0) {
      return code;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongest);
  }
}

class MpiJob final : public Job {
 public:
  MpiJob(MPI_Comm communicator, int rank, int ranks) : communicator_(communicator) {
    place_.rank = rank;
    place_.ranks = ranks;
  }
  ~MpiJob() override {
    if (MpiSession::Current() != nullptr) MPI_Comm_free(&communicator_);
  }

  const Place& place() const override { return place_; }

  Attempt<void> Barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    STEPCAST_TRY(CheckMpi(MPI_Ibarrier(communicator_, &request), "start a barrier"));
    return CheckMpi(WaitFor(request), "finish a barrier");
  }

  Attempt<std::vector<std::string>> Gather(std::string bytes) override {
    std::vector<std::string> all;
    if (place_.rank != 0) {
      STEPCAST_TRY(Send(bytes, 0));
      return all;
    }
    all.push_back(std::move(bytes));
    for (int rank = 1; rank < place_.ranks; ++rank) {
      STEPCAST_TAKE(auto message, Receive(rank));
      all.push_back(std::move(message));
    }
    return all;
  }

  Attempt<std::string> Broadcast(std::string bytes) override {
    std::uint64_t size = bytes.size();
    STEPCAST_TRY(Spread(&size, sizeof size));
    bytes.resize(size);
    for (std::size_t done = 0; done < bytes.size();) {
      const std::size_t piece = std::min(kPiece, bytes.size() - done);
      STEPCAST_TRY(Spread(bytes.data() + done, piece));
      done += piece;
    }
    return bytes;
  }

  // Gathers the places from all ranks, once.
  Attempt<void> FindPlaces() {
    STEPCAST_TAKE(auto hosts, Gather(HostName()));
    std::string lines;
    for (const std::string& host : hosts) lines += host + "\n";
    STEPCAST_TAKE(auto known, Broadcast(std::move(lines)));
    std::vector<RankPlacement> ranks;
    for (std::size_t begin = 0; begin < known.size();) {
      const std::size_t end = known.find('\n', begin);
      ranks.push_back({known.substr(begin, end - begin), -1});
      begin = end + 1;
    }
    place_ = PlacesOf(ranks)[static_cast<std::size_t>(place_.rank)];
    return {};
  }

 private:
  Attempt<void> Spread(void* bytes, std::size_t size) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (auto begun = CheckMpi(
            MPI_Ibcast(bytes, static_cast<int>(size), MPI_BYTE, 0, communicator_, &request),
            "start a broadcast");
        !begun) {
      return begun;
    }
    return CheckMpi(WaitFor(request), "finish a broadcast");
  }

  Attempt<void> Send(const std::string& bytes, int rank) {
    const std::uint64_t size = bytes.size();
    STEPCAST_TRY(SendPiece(&size, sizeof size, rank));
    for (std::size_t done = 0; done < bytes.size();) {
      const std::size_t piece = std::min(kPiece, bytes.size() - done);
      STEPCAST_TRY(SendPiece(bytes.data() + done, piece, rank));
      done += piece;
    }
    return {};
  }

  Attempt<void> SendPiece(const void* bytes, std::size_t size, int rank) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int begun =
        MPI_Isend(bytes, static_cast<int>(size), MPI_BYTE, rank, kTag, communicator_, &request);
    return Finish(begun, request, fmt::format("send to rank {}", rank));
  }

  Attempt<std::string> Receive(int rank) {
    std::uint64_t size = 0;
    STEPCAST_TRY(ReceivePiece(&size, sizeof size, rank));
    std::string bytes(size, '\0');
    for (std::size_t done = 0; done < bytes.size();) {
      const std::size_t piece = std::min(kPiece, bytes.size() - done);
      STEPCAST_TRY(ReceivePiece(bytes.data() + done, piece, rank));
      done += piece;
    }
    return bytes;
  }

  Attempt<void> ReceivePiece(void* bytes, std::size_t size, int rank) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int begun =
        MPI_Irecv(bytes, static_cast<int>(size), MPI_BYTE, rank, kTag, communicator_, &request);
    return Finish(begun, request, fmt::format("receive from rank {}", rank));
  }

  // Waits for a request; `begun` is the return code of the call that made it.
  static Attempt<void> Finish(int begun, MPI_Request& request, const std::string& doing) {
    STEPCAST_TRY(CheckMpi(begun, doing));
    return CheckMpi(WaitFor(request), doing);
  }

  MPI_Comm communicator_;
  Place place_;
};

}  // namespace

Attempt<std::unique_ptr<Job>> JoinMpi() {
  STEPCAST_TAKE(const auto session, MpiSession::Start());
  MPI_Comm communicator = MPI_COMM_NULL;
  if (auto made = CheckMpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator), "make a communicator");
      !made) {
    return tl::unexpected(made.error());
  }
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  auto job = std::make_unique<MpiJob>(communicator, session->rank(), session->ranks());
  STEPCAST_TRY(job->FindPlaces());
  return job;
}

}  // namespace stepcast::runtime
