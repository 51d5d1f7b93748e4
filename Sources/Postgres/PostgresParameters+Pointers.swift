/// Parameters as libpq wants them: parallel arrays, valid for the length of one call.
@unsafe struct ParameterPointers {
    let count: Int32
    let types: UnsafePointer<UInt32>?
    let values: UnsafePointer<UnsafePointer<CChar>?>?
    let lengths: UnsafePointer<Int32>?
    let formats: UnsafePointer<Int32>?
}

extension PostgresParameters {
    /// Lays the parameters out for one call of libpq. Four small allocations.
    func withPointers<Value>(_ body: (ParameterPointers) -> Value) -> Value {
        guard !fields.isEmpty else {
            return unsafe body(ParameterPointers(count: 0, types: nil, values: nil, lengths: nil, formats: nil))
        }
        let types = fields.map(\.type.rawValue)
        let lengths = fields.map { max($0.length, 0) }
        let formats = fields.map { $0.type == .unknown ? Int32(0) : 1 }
        // An empty value must not have a null pointer: that would make it null. One spare byte gives it an address.
        let buffer = bytes.isEmpty ? [0] : bytes
        return unsafe buffer.withUnsafeBytes { buffer in
            let base = unsafe buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
            let values = unsafe fields.map { field in
                unsafe field.length < 0 ? nil : base?.advanced(by: field.offset)
            }
            return unsafe types.withUnsafeBufferPointer { types in
                unsafe lengths.withUnsafeBufferPointer { lengths in
                    unsafe values.withUnsafeBufferPointer { values in
                        unsafe formats.withUnsafeBufferPointer { formats in
                            let pointers = unsafe ParameterPointers(
                                count: Int32(fields.count),
                                types: types.baseAddress,
                                values: values.baseAddress,
                                lengths: lengths.baseAddress,
                                formats: formats.baseAddress
                            )
                            return unsafe body(pointers)
                        }
                    }
                }
            }
        }
    }
}
