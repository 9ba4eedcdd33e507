#pragma once

#include <signal.h>

#include <string>

// Replacing a name in a folder by a new version: that is written under a temporary name beside it,
// made durable, and renamed.
namespace stepcast {

// A name in the folder of `target` that nothing is likely to have: ".NAME.1f0e2d3c4b5a6978", of a
// long name its beginning. It is created exclusively; if the name exists, another is taken.
std::string TemporaryName(const std::string& target);

// Writes a folder's entries to the disk, so that a rename in it outlasts a power failure. False,
// with errno, where that fails; a file system that cannot do it has not failed.
bool SyncFolder(const std::string& folder);

// While one lives, neither its thread nor any other of the process ends it at a signal, provided
// that handlers call LetFinish: for the moments in which an unfinished version has no entry in a
// list of what to remove. Those must be short.
class SignalsHeldBack {
 public:
  SignalsHeldBack();
  ~SignalsHeldBack();
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

  // For signal handlers, and for code that is about to end the process: waits until no other thread
  // holds signals back, and keeps further ones from it. Gives up after some seconds: a file system
  // may hang. The process must end next.
  static void LetFinish();

 private:
  sigset_t before_;
};

}  // namespace stepcast
