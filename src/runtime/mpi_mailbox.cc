#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/runtime/mpi_session.h"

namespace stepcast::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr int kMailboxTag = 1;

class MpiMailbox final : public messaging::Mailbox {
 public:
  MpiMailbox(MPI_Comm communicator, int rank, int ranks)
      : communicator_(communicator), rank_(rank), ranks_(ranks) {}
  ~MpiMailbox() override {
    if (MpiSession::Current() != nullptr) MPI_Comm_free(&communicator_);
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  Attempt<void> Send(int rank, std::string bytes) override {
    STEPCAST_CHECK(bytes.size() <= INT_MAX,
                   "the size of a message must not exceed the limit of MPI");
    // A deque, since the bytes must not move while they are sent.
    Sending& sending = sending_.emplace_back();
    sending.bytes = std::move(bytes);
    return CheckMpi(MPI_Isend(sending.bytes.data(), static_cast<int>(sending.bytes.size()),
                              MPI_BYTE, rank, kMailboxTag, communicator_, &sending.request),
                    fmt::format("send to rank {}", rank));
  }

  Attempt<std::optional<messaging::Message>> Receive(microseconds timeout) override {
    const auto end = steady_clock::now() + timeout;
    Pause pause;
    for (;;) {
      STEPCAST_TRY(ReleaseSent());
      int there = 0;
      MPI_Message matched = MPI_MESSAGE_NULL;
      MPI_Status status;
      if (auto probed = CheckMpi(
              MPI_Improbe(MPI_ANY_SOURCE, kMailboxTag, communicator_, &there, &matched, &status),
              "look for messages");
          !probed) {
        return tl::unexpected(probed.error());
      }
      if (there != 0) {
        messaging::Message message;
        message.from = status.MPI_SOURCE;
        int size = 0;
        MPI_Get_count(&status, MPI_BYTE, &size);
        message.bytes.resize(static_cast<std::size_t>(size));
        MPI_Request request = MPI_REQUEST_NULL;
        const std::string doing = fmt::format("receive from rank {}", message.from);
        if (auto begun = CheckMpi(
                MPI_Imrecv(message.bytes.data(), size, MPI_BYTE, &matched, &request), doing);
            !begun) {
          return tl::unexpected(begun.error());
        }
        STEPCAST_TRY(WaitFor(request, doing));
        return message;
      }
      if (steady_clock::now() >= end) return std::optional<messaging::Message>();
      pause.Take();
    }
  }

  Attempt<void> Flush() override {
    while (!sending_.empty()) {
      STEPCAST_TRY(WaitFor(sending_.front().request, "send"));
      sending_.pop_front();
    }
    return {};
  }

 private:
  struct Sending {
    std::string bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // Sleeps rather than spins, to leave the core for computation.
  class Pause {
   public:
    void Take() {
      std::this_thread::sleep_for(length_);
      length_ = std::min(length_ * 2, microseconds(500));
    }

   private:
    microseconds length_{10};
  };

  // Sends nothing itself meanwhile: any MPI call makes progress with all requests.
  static Attempt<void> WaitFor(MPI_Request& request, const std::string& doing) {
    for (Pause pause;; pause.Take()) {
      int done = 0;
      STEPCAST_TRY(CheckMpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), doing));
      if (done != 0) return {};
    }
  }

  Attempt<void> ReleaseSent() {
    while (!sending_.empty()) {
      int done = 0;
      if (auto tested =
              CheckMpi(MPI_Test(&sending_.front().request, &done, MPI_STATUS_IGNORE), "send");
          !tested) {
        return tested;
      }
      if (done == 0) return {};
      sending_.pop_front();
    }
    return {};
  }

  MPI_Comm communicator_;
  const int rank_;
  const int ranks_;
  std::deque<Sending> sending_;
};

}  // namespace

Attempt<std::unique_ptr<messaging::Mailbox>> OpenMpiMailbox() {
  const MpiSession* const session = MpiSession::Current();
  if (session == nullptr) return tl::unexpected(Failure{"MPI is not running"});
  MPI_Comm communicator = MPI_COMM_NULL;
  if (auto made = CheckMpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator), "make a communicator");
      !made) {
    return tl::unexpected(made.error());
  }
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  return std::make_unique<MpiMailbox>(communicator, session->rank(), session->ranks());
}

}  // namespace stepcast::runtime
