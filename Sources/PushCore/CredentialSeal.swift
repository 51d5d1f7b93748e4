/// What binds a sealed credential to its row, so that it cannot be opened as another app's or another credential's.
package enum CredentialSeal {
    /// The associated data of `peal.credential.sealed`.
    package static func associatedData(app: AppID, credential: CredentialID) -> [UInt8] {
        Array("peal.credential/\(app)/\(credential)/sealed".utf8)
    }
}
