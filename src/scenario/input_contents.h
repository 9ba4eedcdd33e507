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

// Inputs that several scenarios share, each read and built once: documents, models, clusters, GPUs
// and calibration profiles. After the first scenario, variants of the same file load in well below
// a millisecond. Thread-safe.
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

// Values computed from input files, each computed once and shared by all scenarios of a sweep.
// Files must not change while this object exists. Thread-safe: if several threads need a value, one
// thread computes the value and the others wait.
template <typename T>
class SharedInputs {
 public:
  using Value = Result<std::shared_ptr<const T>>;

  // Returns the value for `key`. The first call computes the value with `make() -> Result<T>`.
  // Errors are cached too.
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

// The contents of an InputCache, for the readers that fill the cache.

// The tree of a file, and the mistakes that did not prevent parsing.
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

// Suggests known names for an unknown name.

// Suggests files for a path that was not found. For a name without a folder ("h100"): the shipped
// files for `key` whose names contain the name. For other paths: the most similar path in the same
// folder.
std::vector<std::string> FilesMeant(std::string_view path, std::string_view key);

// Returns a hint for a word that is neither a file nor a model: similar names of files in the
// word's folder, or of models. Empty if the word is a path and no file has a similar name.
std::string HintOfName(std::string_view word);

// Returns suggestions from `known`: all names that contain the word ("h100-sxm" for "h100") or, if
// no name contains the word, the most similar name. Empty if no name is similar.
std::vector<std::string> NamesMeant(std::string_view word, const std::vector<std::string>& known);

}  // namespace stepcast::scenario
