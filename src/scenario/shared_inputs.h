#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>

#include "src/base/diagnostic.h"

namespace stepcast::scenario {

// Values made from input files, each made once and shared: thousands of scenarios of a sweep name
// the same few files. A file is taken to stay as it is for the life of this object. Thread-safe;
// while one thread makes a value, others that want the same one wait.
template <typename T>
class SharedInputs {
 public:
  using Value = Result<std::shared_ptr<const T>>;

  // The value that `key` stands for, from `make() -> Result<T>` the first time. What went wrong is
  // kept, too.
  template <typename Make>
  Value Get(const std::string& key, Make make) {
    const std::shared_ptr<Entry> entry = Find(key);
    std::call_once(entry->made, [&] {
      Result<T> result = make();
      entry->value = result.has_value() ? Value(std::make_shared<const T>(*std::move(result)))
                                        : Value(tl::make_unexpected(std::move(result.error())));
    });
    return *entry->value;
  }

 private:
  struct Entry {
    std::once_flag made;
    std::optional<Value> value;
  };

  std::shared_ptr<Entry> Find(const std::string& key) {
    {
      const std::shared_lock<std::shared_mutex> lock(mutex_);
      if (const auto found = entries_.find(key); found != entries_.end()) return found->second;
    }
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    std::shared_ptr<Entry>& entry = entries_[key];
    if (entry == nullptr) entry = std::make_shared<Entry>();
    return entry;
  }

  std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace stepcast::scenario
