#include "src/runtime/watch.h"

#include <unistd.h>

#include <utility>

#include "src/runtime/watch_thread.h"

namespace stepcast::runtime {
namespace watching {
namespace {

// For ranks that are all threads of this process, watched in memory.
class ThreadWatch final : public WatchThread {
 public:
  ThreadWatch(const std::vector<Place>& places, const std::vector<int>& ranks,
              const WatchOptions& options, End end)
      : WatchThread(places, ranks, options, std::move(end)) {
    Begin();
  }
  ~ThreadWatch() override { Stop(); }
  void Finish() override { Stop(); }

 private:
  void ReceiveMessages() override {}
  void SendHeartbeats() override { CheckForHang(); }
  void Consider(Cause cause) override { verdict_.Consider(std::move(cause)); }
  void Leave() override {}
  void BeforeExit(int) override {}
  milliseconds Silence() const override { return std::chrono::hours(24 * 365); }  // no others
  Deadline NextDecision() const override { return verdict_.decided_at(); }
  void Decide() override { EndProcess(verdict_.cause().status, verdict_.cause().sentence); }

  Verdict verdict_;
};

}  // namespace
}  // namespace watching

std::unique_ptr<Watch> Watch::OverThreads(const std::vector<Place>& places,
                                          const WatchOptions& options, End end) {
  std::vector<int> ranks;
  for (const Place& place : places) ranks.push_back(place.rank);
  return std::make_unique<watching::ThreadWatch>(places, ranks, options, std::move(end));
}

void Watch::Fail(int rank, const Failure& failure) {
  Tell(rank, failure);
  for (;;) ::pause();  // the watch's thread ends the process
}

bool Watch::TakeSignal(int signal) { return watching::WatchThread::Notice(signal); }

}  // namespace stepcast::runtime
