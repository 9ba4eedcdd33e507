#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/calibration/calibration.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/scenario/document.h"
#include "src/scenario/model_file.h"
#include "src/scenario/topology_file.h"
#include "src/topology/cluster.h"

namespace stepcast::scenario {

// Inputs that several scenarios use, read and built once: documents, models, clusters, GPUs and
// calibration profiles. After the first scenario of a file, another variant of it loads in a small
// fraction of a millisecond. Thread-safe.
class InputCache {
 public:
  InputCache();
  ~InputCache();
  InputCache(const InputCache&) = delete;
  InputCache& operator=(const InputCache&) = delete;

  struct Contents;
  Contents& contents() { return *contents_; }

 private:
  std::unique_ptr<Contents> contents_;
};

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

// What an InputCache holds; for the readers that fill it.

// A file's tree, and what was wrong without keeping it from having one.
struct Document {
  std::optional<Node> root;
  Diagnostics mistakes;
};

struct InputCache::Contents {
  SharedInputs<Document> documents;
  SharedInputs<LoadedModel> models;
  SharedInputs<Topology> topologies;
  SharedInputs<topology::Cluster> clusters;
  SharedInputs<calibration::Calibration> calibrations;
  SharedInputs<parallel::PipelineSchedule> schedules;
};

// Names that may have been meant by one that is not known.

// The data root's files that may have been meant by one that was not found: for a name without a
// folder ("h100") the names of all of the key's folder that contain it; else the path of the
// nearest of its folder.
std::vector<std::string> FilesMeant(std::string_view path, std::string_view key);

// Of `known`: all that contain the word ("h100" is part of "h100-sxm"), else the nearest one; none
// where no name is near.
std::vector<std::string> NamesMeant(std::string_view word, const std::vector<std::string>& known);

}  // namespace stepcast::scenario
