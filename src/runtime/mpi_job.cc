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
    if (auto begun = CheckMpi(MPI_Ibarrier(communicator_, &request), "start a barrier"); !begun) {
      return begun;
    }
    return CheckMpi(WaitFor(request), "finish a barrier");
  }

  Attempt<std::vector<std::string>> Gather(std::string bytes) override {
    std::vector<std::string> all;
    if (place_.rank != 0) {
      if (auto sent = Send(bytes, 0); !sent) return tl::unexpected(sent.error());
      return all;
    }
    all.push_back(std::move(bytes));
    for (int rank = 1; rank < place_.ranks; ++rank) {
      auto message = Receive(rank);
      if (!message) return tl::unexpected(message.error());
      all.push_back(std::move(*message));
    }
    return all;
  }

  Attempt<std::string> Broadcast(std::string bytes) override {
    std::uint64_t size = bytes.size();
    if (auto told = Spread(&size, sizeof size); !told) return tl::unexpected(told.error());
    bytes.resize(size);
    for (std::size_t done = 0; done < bytes.size();) {
      const std::size_t piece = std::min(kPiece, bytes.size() - done);
      if (auto told = Spread(bytes.data() + done, piece); !told) {
        return tl::unexpected(told.error());
      }
      done += piece;
    }
    return bytes;
  }

  // Gathers the places from all ranks, once.
  Attempt<void> FindPlaces() {
    auto hosts = Gather(HostName());
    if (!hosts) return tl::unexpected(hosts.error());
    std::string lines;
    for (const std::string& host : *hosts) lines += host + "\n";
    auto known = Broadcast(std::move(lines));
    if (!known) return tl::unexpected(known.error());
    std::vector<RankPlacement> ranks;
    for (std::size_t begin = 0; begin < known->size();) {
      const std::size_t end = known->find('\n', begin);
      ranks.push_back({known->substr(begin, end - begin), -1});
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
    if (auto sent = SendPiece(&size, sizeof size, rank); !sent) return sent;
    for (std::size_t done = 0; done < bytes.size();) {
      const std::size_t piece = std::min(kPiece, bytes.size() - done);
      if (auto sent = SendPiece(bytes.data() + done, piece, rank); !sent) return sent;
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
    if (auto got = ReceivePiece(&size, sizeof size, rank); !got) return tl::unexpected(got.error());
    std::string bytes(size, '\0');
    for (std::size_t done = 0; done < bytes.size();) {
      const std::size_t piece = std::min(kPiece, bytes.size() - done);
      if (auto got = ReceivePiece(bytes.data() + done, piece, rank); !got) {
        return tl::unexpected(got.error());
      }
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
    if (auto started = CheckMpi(begun, doing); !started) return started;
    return CheckMpi(WaitFor(request), doing);
  }

  MPI_Comm communicator_;
  Place place_;
};

}  // namespace

Attempt<std::unique_ptr<Job>> JoinMpi() {
  const auto session = MpiSession::Start();
  if (!session) return tl::unexpected(session.error());
  MPI_Comm communicator = MPI_COMM_NULL;
  if (auto made = CheckMpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator), "make a communicator");
      !made) {
    return tl::unexpected(made.error());
  }
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  auto job = std::make_unique<MpiJob>(communicator, (*session)->rank(), (*session)->ranks());
  if (auto found = job->FindPlaces(); !found) return tl::unexpected(found.error());
  return job;
}

}  // namespace stepcast::runtime
