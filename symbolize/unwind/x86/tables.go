package x86

// What follows an opcode.
const (
	formNone      = '.'
	formInvalid   = 'x'
	formPrefix    = 'p'
	formREX       = 'r'
	formEscape    = 'e' // a second opcode
	formEscape38  = '2' // and a third
	formEscape3A  = '3'
	formVector    = 'v' // VEX or EVEX
	formModRM     = 'm' // registers or memory
	formModRMByte = 'M' // and a constant of one byte
	formModRMWord = 'W' // of two
	formModRMLong = 'L' // of four
	formModRMWide = 'Z' // of four, or of two after a prefix
	formTest      = 'g' // of one byte, for some operations
	formTestWide  = 'G'
	formByte      = 'b' // a constant of one byte, without registers or memory
	formWord      = 'w'
	formEnter     = 'n' // of three
	formLong      = 'j' // of four, whatever the prefixes
	formWide      = 'z'
	formMove      = 'i' // of eight with REX.W
	formMemory    = 'o' // an address
)

// first has what follows each opcode of one byte (Intel's manual, volume 2, appendix A).
const first = "" +
	"mmmmbzxxmmmmbzxe" + // 00
	"mmmmbzxxmmmmbzxx" +
	"mmmmbzpxmmmmbzpx" + // 20
	"mmmmbzpxmmmmbzpx" +
	"rrrrrrrrrrrrrrrr" + // 40
	"................" +
	"xxvmppppzZbM...." + // 60
	"bbbbbbbbbbbbbbbb" +
	"MZxMmmmmmmmmmmmm" + // 80
	"..........x....." +
	"oooo....bz......" + // a0
	"bbbbbbbbiiiiiiii" +
	"MMw.vvMZn.w..bx." + // c0
	"mmmmxxx.mmmmmmmm" +
	"bbbbbbbbjjxb...." + // e0
	"p.pp..gG......mm"

// second has what follows each opcode after 0f.
const second = "" +
	"mmmmx.....x.xm.M" + // 00
	"mmmmmmmmmmmmmmmm" +
	"bbbbxxxxmmmmmmmm" + // 20; the byte after the first four never names memory
	"......x.2x3xxxxx" +
	"mmmmmmmmmmmmmmmm" + // 40
	"mmmmmmmmmmmmmmmm" +
	"mmmmmmmmmmmmmmmm" + // 60
	"MMMMmmm.mmmmmmmm" +
	"jjjjjjjjjjjjjjjj" + // 80
	"mmmmmmmmmmmmmmmm" +
	"...mMmxx...mMmmm" + // a0
	"mmmmmmmmmmMmmmmm" +
	"mmMmMMMm........" + // c0
	"mmmmmmmmmmmmmmmm" +
	"mmmmmmmmmmmmmmmm" + // e0
	"mmmmmmmmmmmmmmmm"

// special has the opcodes of one byte that may be of another Kind than Other.
var special = func() (set [256]bool) {
	for op := range 0x40 {
		set[op] = op&7 < 4 // with a register that is written
	}
	for op := 0x50; op < 0x60; op++ {
		set[op] = true
	}
	for op := 0x70; op < 0x80; op++ {
		set[op] = true
	}
	for _, op := range []byte{
		0x63, 0x68, 0x69, 0x6a, 0x6b, 0x80, 0x81, 0x83, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, 0x8f, 0x90, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x9c, 0x9d,
		0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xc1, 0xc2, 0xc3, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xd0, 0xd1, 0xd2, 0xd3,
		0xe0, 0xe1, 0xe2, 0xe3, 0xe8, 0xe9, 0xeb, 0xf4, 0xf6, 0xf7, 0xfe, 0xff,
	} {
		set[op] = true
	}
	return set
}()
