import com.example.textclassifier.Unigram
import java.io.File

/**
 * Runs the Android sample's Unigram tokenizer on the JVM, for `tests/project/test_web.py`: a line of ids for each line of
 * stdin, which is a text as hexadecimal code points. The argument is the model.
 */
fun main(arguments: Array<String>) {
    val tokenizer = Unigram(File(arguments[0]).readBytes())
    for (line in generateSequence(::readLine)) {
        val text = StringBuilder()
        line.split(' ').filter(String::isNotEmpty).forEach { text.appendCodePoint(it.toInt(16)) }
        println(tokenizer.tokenize(text.toString()).joinToString(" "))
    }
}
