// What sanitizers must not report, linked into every test of a sanitizer build, so that it holds
// however a test is started. Third-party code only, each line with its reason.
extern "C" {

// libcpprest is not compiled with the sanitizer, so it can't be seen that its threads and its
// callers agree by atomic reference counts (of responses, exceptions, cancellation registrations):
// what it frees looks like a race. None of this project's code runs on its threads.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is the sanitizer's.
const char* __tsan_default_suppressions() { return "race:libcpprest.so\n"; }

// A request that libcpprest cancels while its answer comes in (our total deadline, our stop) may
// leave its task behind: some hundred bytes of the library's own objects for each.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is the sanitizer's.
const char* __lsan_default_suppressions() { return "leak:libcpprest.so\n"; }
}
