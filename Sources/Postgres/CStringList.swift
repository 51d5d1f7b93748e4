import Glibc

/// Lends copies of strings to C, as a list of pointers with a null at its end.
@safe func withCStrings<Value>(
    _ strings: [String],
    _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Value
) -> Value {
    let pointers = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: strings.count + 1)
    for (position, string) in strings.enumerated() {
        unsafe (pointers + position).initialize(to: strdup(string))
    }
    unsafe (pointers + strings.count).initialize(to: nil)
    defer {
        for position in strings.indices { unsafe free(pointers[position]) }
        unsafe pointers.deallocate()
    }
    return unsafe body(pointers)
}
