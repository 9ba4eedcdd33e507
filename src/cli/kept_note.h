#pragma once

#include <atomic>
#include <cstdint>
#include <string>

// What a run that is ended by a signal says of the results that a store has.
namespace stepcast::cli {

// While it lives, SayWhatIsKept says that the file `store` has `kept` of `what` ("of 400
// combinations", "bounds and forecasts"). One at a time.
class KeptNote {
 public:
  KeptNote(const std::atomic<std::int64_t>& kept, const std::string& what,
           const std::string& store);
  ~KeptNote();
  KeptNote(const KeptNote&) = delete;
  KeptNote& operator=(const KeptNote&) = delete;
};

// "120 of 400 are kept in 'F': the same command goes on from there", as a line on stderr; nothing
// where nothing is kept. Safe in a signal handler.
void SayWhatIsKept();

}  // namespace stepcast::cli
