#pragma once

#include <memory>
#include <string>

// Scenarios without a file, for programs that use stepcast as a library. Every function with a
// scenario's path as an argument also accepts the name of a MemoryDocument.
namespace stepcast::scenario {

// A text that Load() finds by name() while this object exists. Names are unique, so several threads
// may have separate documents. Diagnostics show `title` as the file. The working directory is the
// base of relative paths in the text.
class MemoryDocument {
 public:
  MemoryDocument(std::string title, std::string text);
  ~MemoryDocument();
  MemoryDocument(const MemoryDocument&) = delete;
  MemoryDocument& operator=(const MemoryDocument&) = delete;

  const std::string& name() const { return name_; }

  struct Content {
    std::string title, text;
  };
  // Returns the document with this name, or null if no document has it.
  static std::shared_ptr<const Content> Find(const std::string& name);

 private:
  std::string name_;
};

}  // namespace stepcast::scenario
