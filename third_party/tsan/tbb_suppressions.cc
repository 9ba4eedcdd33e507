// ThreadSanitizer does not see how the system's libtbb, which is not built for it, hands work from
// thread to thread, and takes every handover for a race. Races between bodies of TBB algorithms are
// therefore not reported; code that uses threads and locks directly is checked as usual.
extern "C" const char* __tsan_default_suppressions() {
  return "race:oneapi/tbb/\n"
         "race:libtbb.so\n";
}
