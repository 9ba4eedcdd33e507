#include "tests/emulated_gpu/schedule.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "tests/emulated_gpu/emulation.h"

namespace emulated {
namespace {

// If nothing runs for this long, every thread waits for another.
constexpr auto kHang = std::chrono::seconds(60);

Nanoseconds HostClock() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

struct CallCount {
  int count = 0;
  int fails = 0;
  std::string failed;
  std::map<std::string, int> by_name;
};
CallCount& TheCalls() {
  static CallCount calls;
  return calls;
}

}  // namespace

void Die(const std::string& mistake) {
  std::fprintf(stderr, "emulated GPU: %s\n", mistake.c_str());
  std::abort();
}

Schedule& Schedule::Get() {
  static Schedule schedule;
  return schedule;
}

Schedule::Schedule() : running_(64, 0) {
  const char* seed = std::getenv("EMULATED_ORDER");
  random_.seed(seed == nullptr ? 1 : static_cast<unsigned>(std::atoi(seed)));
}

void Schedule::Submit(const OperationRef& operation, const std::vector<OperationRef>& before) {
  operation->begin = HostClock();
  ++running_[static_cast<std::size_t>(operation->gpu)];
  for (const OperationRef& one : before) {
    if (one == nullptr) continue;
    if (one->done) {
      operation->begin = std::max(operation->begin, one->end);
      continue;
    }
    one->next.push_back(operation);
    ++operation->awaited;
  }
  if (operation->awaited == 0) ready_.push_back(operation);
}

void Schedule::End(Operation& operation, Nanoseconds when) {
  const auto kept = begun_.extract(&operation);
  operation.end = std::max(operation.begin, when);
  operation.done = true;
  --running_[static_cast<std::size_t>(operation.gpu)];
  operation.work = nullptr;
  for (const OperationRef& next : std::exchange(operation.next, {})) {
    next->begin = std::max(next->begin, operation.end);
    if (--next->awaited == 0) ready_.push_back(next);
  }
}

bool Schedule::RunOne() {
  if (ready_.empty()) return false;
  std::swap(ready_[random_() % ready_.size()], ready_.back());
  const OperationRef operation = std::move(ready_.back());
  ready_.pop_back();
  const std::optional<Nanoseconds> end =
      operation->work ? operation->work(operation->begin) : operation->begin;
  if (end) {
    End(*operation, *end);
  } else {
    begun_[operation.get()] = operation;
  }
  return true;
}

void Schedule::RunSome() {
  for (auto count = random_() % 4; count > 0 && RunOne(); --count) {
  }
}

void Schedule::RunUntil(const std::function<bool()>& is_true) {
  auto last = std::chrono::steady_clock::now();
  while (!is_true()) {
    if (RunOne()) {
      last = std::chrono::steady_clock::now();
      continue;
    }
    mutex_.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    mutex_.lock();
    if (std::chrono::steady_clock::now() - last > kHang) Die("waits for what never ends");
  }
}

bool IsSeen(const OperationRef& operation) {
  return operation == nullptr || (operation->done && operation->end <= HostClock());
}

bool CallFails(const char* name) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  CallCount& calls = TheCalls();
  ++calls.by_name[name];
  if (++calls.count != calls.fails) return false;
  calls.failed = name;
  return true;
}

void FailCall(int number) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  TheCalls() = {.count = 0, .fails = number, .failed = "", .by_name = {}};
}

int Calls() {
  const std::scoped_lock lock(Schedule::Get().mutex());
  return TheCalls().count;
}

std::string FailedCall() {
  const std::scoped_lock lock(Schedule::Get().mutex());
  return TheCalls().failed;
}

int CallsOf(const std::string& name) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  return TheCalls().by_name[name];
}

namespace {

std::vector<std::weak_ptr<Operation>>& Collectives() {
  static std::vector<std::weak_ptr<Operation>> under_way;
  return under_way;
}

}  // namespace

void CollectiveSubmitted(const OperationRef& collective) { Collectives().push_back(collective); }

void Load(int gpu, const std::string& code) {
  static std::set<std::pair<int, std::string>> loaded;
  if (!loaded.emplace(gpu, code).second) return;
  std::erase_if(Collectives(), [](const std::weak_ptr<Operation>& one) {
    const OperationRef collective = one.lock();
    return collective == nullptr || collective->done;
  });
  for (const std::weak_ptr<Operation>& one : Collectives()) {
    if (one.lock()->gpu == gpu) Die("code is loaded beside a collective: " + code);
  }
}

}  // namespace emulated
