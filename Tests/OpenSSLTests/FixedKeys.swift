/// Keys that were made for these tests and are used nowhere else.
enum FixedKeys {
    static let sec1 = """
        -----BEGIN EC PARAMETERS-----
        BggqhkjOPQMBBw==
        -----END EC PARAMETERS-----
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEILhvctNX+gkHQHYFoCNiHMO4oSn2qPBaIL60YAmPEg3hoAoGCCqGSM49
        AwEHoUQDQgAESKyragDYxdybCg04aJrQlWONxMjU7wwSN14V9I9e4Ut9l8IQ+e+m
        gdwcuoW7PC5NM1nmx1gKCAMRWN72nNZPlQ==
        -----END EC PRIVATE KEY-----
        """

    static let p384 = """
        -----BEGIN PRIVATE KEY-----
        MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDCHK6DUEYrkltBBi9+Z
        kQDKHbLGclH+r6SN6R0gIYArIPsFEihJRayn2raLFrA56fehZANiAATsKpJZzbKD
        3j1QKNcsPLy2Qnazt+tqUmtAdvcOY0mSGYITM8PAx3CsIrqN/LJ+Qkp/SSuiLcKm
        gj7ECwQB32izdDHS8hx0pFvTZlg7UHRY25GiDYNRiIXILVpWk8YRZkg=
        -----END PRIVATE KEY-----
        """

    static let encrypted = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhCuVgaktf/FwICCAAw
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEENvNvJIUJlgSNomBcTECUugEgZBB
        FOd1c2qrQSVr8vJhobb7CKDIi9+ZbKMQyJRt074ruYNvuxx5be34fuGGs3zIpefq
        VajoxU5ATpUVRgXsWu34uTnp+tukBQw6s5lB1iNJs2wXithypNmAaNZjtQJp08xI
        5Y22bpB0loNu+yPhWdJTWRpgWIhrRTbIuqvZLjLX41AeiP7bGW16KI/u7Un8EY0=
        -----END ENCRYPTED PRIVATE KEY-----
        """

    static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAESKyragDYxdybCg04aJrQlWONxMjU
        7wwSN14V9I9e4Ut9l8IQ+e+mgdwcuoW7PC5NM1nmx1gKCAMRWN72nNZPlQ==
        -----END PUBLIC KEY-----
        """

    static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBtTCCATygAwIBAgIUNjmS7aJsChzJg7Dk6PDHSoX+kQUwCgYIKoZIzj0EAwIw
        EjEQMA4GA1UEAwwHZXhhbXBsZTAeFw0yNjExMzAwNDQ3MDNaFw0yNjEyMDEwNDQ3
        MDNaMBIxEDAOBgNVBAMMB2V4YW1wbGUwdjAQBgcqhkjOPQIBBgUrgQQAIgNiAATs
        KpJZzbKD3j1QKNcsPLy2Qnazt+tqUmtAdvcOY0mSGYITM8PAx3CsIrqN/LJ+Qkp/
        SSuiLcKmgj7ECwQB32izdDHS8hx0pFvTZlg7UHRY25GiDYNRiIXILVpWk8YRZkij
        UzBRMB0GA1UdDgQWBBRaCY7TaVks9CeY6JhuAHr1rn91hTAfBgNVHSMEGDAWgBRa
        CY7TaVks9CeY6JhuAHr1rn91hTAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMC
        A2cAMGQCMCJiFazAXCdVdT5r02co9fb1kCVs0FWr3BDC0enKWYfYfGfwcINfoXCW
        t+pbJnTFqwIwDTT7zbJFpMgNwcJCpMGJko7eIbzL+pWHNJ4gUR8qB9mae2F6IsR3
        VUbdv4LR++Z/
        -----END CERTIFICATE-----
        """
}
