#include "src/scenario/memory_document.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "fmt/format.h"

namespace stepcast::scenario {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const MemoryDocument::Content>> documents;
  std::uint64_t made = 0;
};

Registry& TheRegistry() {
  static Registry* const registry = new Registry;  // used until the last thread ends
  return *registry;
}

// No file can have such a name, because it ends with a slash.
constexpr const char* kName = "memory:{}/";

}  // namespace

MemoryDocument::MemoryDocument(std::string title, std::string text) {
  auto content = std::make_shared<const Content>(Content{std::move(title), std::move(text)});
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  name_ = fmt::format(kName, registry.made++);
  registry.documents.emplace(name_, std::move(content));
}

MemoryDocument::~MemoryDocument() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.documents.erase(name_);
}

std::shared_ptr<const MemoryDocument::Content> MemoryDocument::Find(const std::string& name) {
  if (!name.starts_with("memory:")) return nullptr;
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.documents.find(name);
  return found == registry.documents.end() ? nullptr : found->second;
}

}  // namespace stepcast::scenario
