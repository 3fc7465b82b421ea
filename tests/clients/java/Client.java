import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.flight.CallStatus;
import org.apache.arrow.flight.Criteria;
import org.apache.arrow.flight.FlightClient;
import org.apache.arrow.flight.FlightDescriptor;
import org.apache.arrow.flight.FlightEndpoint;
import org.apache.arrow.flight.FlightInfo;
import org.apache.arrow.flight.FlightRuntimeException;
import org.apache.arrow.flight.FlightStream;
import org.apache.arrow.flight.Location;
import org.apache.arrow.flight.Ticket;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.TimeStampVector;
import org.apache.arrow.vector.UInt4Vector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.BaseListVector;

/** Does tasks with Arrow's stock Flight client, one after the other, and writes down what it gets. */
final class Client {
    private final FlightClient flight;

    private Client(FlightClient flight) {
        this.flight = flight;
    }

    /** HOST:PORT, then pairs of a task and its word, which is a feed command unless it is said below. */
    public static void main(String[] arguments) throws Exception {
        String[] place = arguments[0].split(":");
        Location location = Location.forGrpcInsecure(place[0], Integer.parseInt(place[1]));
        // Closing it fails if anything was not given back.
        try (RootAllocator memory = new RootAllocator();
                FlightClient flight = FlightClient.builder(memory, location).build()) {
            Client client = new Client(flight);
            for (int i = 1; i < arguments.length; i += 2) {
                client.perform(arguments[i], arguments[i + 1]);
            }
        }
    }

    private void perform(String task, String word) throws Exception {
        try {
            switch (task) {
                case "list" -> list();
                case "rows" -> rows(word);
                case "count" -> count(word);
                case "leave" -> leave(word);
                case "ask" -> info(word);
                case "redeem" -> redeem(word);
                default -> throw new IllegalArgumentException("no task is called " + task);
            }
        } catch (FlightRuntimeException refusal) {
            CallStatus status = refusal.status();
            System.out.println("refused " + status.code() + " " + status.description());
        }
    }

    /** Its word is for nothing. */
    private void list() {
        for (FlightInfo info : flight.listFlights(Criteria.ALL)) {
            System.out.println("flight " + info.getDescriptor().getPath().get(0) + " " + info.getRecords());
        }
    }

    /** Every row of every rank, and the note on each batch. */
    private void rows(String command) throws Exception {
        List<FlightEndpoint> endpoints = info(command).getEndpoints();
        for (int rank = 0; rank < endpoints.size(); rank++) {
            try (FlightStream stream = flight.getStream(endpoints.get(rank).getTicket())) {
                while (stream.next()) {
                    byte[] note = new byte[(int) stream.getLatestMetadata().readableBytes()];
                    stream.getLatestMetadata().getBytes(0, note);
                    System.out.println("note " + rank + " " + new String(note, StandardCharsets.UTF_8));
                    VectorSchemaRoot batch = stream.getRoot();
                    for (int row = 0; row < batch.getRowCount(); row++) {
                        List<String> values = new ArrayList<>();
                        for (FieldVector column : batch.getFieldVectors()) {
                            values.add(text(column, row));
                        }
                        System.out.println("row " + rank + " " + String.join("|", values));
                    }
                }
            }
        }
    }

    /** The rows of the first rank. */
    private void count(String command) throws Exception {
        long rows = 0;
        try (FlightStream stream = flight.getStream(info(command).getEndpoints().get(0).getTicket())) {
            while (stream.next()) {
                rows += stream.getRoot().getRowCount();
            }
        }
        System.out.println("count " + rows);
    }

    /** Takes one batch and goes, as a job does that is stopped. */
    private void leave(String command) throws Exception {
        try (FlightStream stream = flight.getStream(info(command).getEndpoints().get(0).getTicket())) {
            boolean any = stream.next();
            stream.cancel("enough", null);
            System.out.println("left " + any);
        }
    }

    /** Its word is the ticket. */
    private void redeem(String ticket) throws Exception {
        try (FlightStream stream = flight.getStream(new Ticket(ticket.getBytes(StandardCharsets.UTF_8)))) {
            System.out.println("redeemed " + stream.next());
        }
    }

    private FlightInfo info(String command) {
        return flight.getInfo(FlightDescriptor.command(command.getBytes(StandardCharsets.UTF_8)));
    }

    /** One value, written so that every client writes it alike: floats by their bits. */
    private static String text(ValueVector column, int row) {
        if (column.isNull(row)) {
            return "null";
        } else if (column instanceof BitVector bits) {
            return bits.get(row) == 1 ? "true" : "false";
        } else if (column instanceof Float4Vector floats) {
            return String.format("%08x", Float.floatToRawIntBits(floats.get(row)));
        } else if (column instanceof Float8Vector floats) {
            return String.format("%016x", Double.doubleToRawLongBits(floats.get(row)));
        } else if (column instanceof UInt4Vector numbers) {
            return Integer.toUnsignedString(numbers.get(row));
        } else if (column instanceof TimeStampVector times) {
            return Long.toString(times.get(row));
        } else if (column instanceof BaseListVector lists) {
            ValueVector inside = lists.getChildrenFromFields().get(0);
            List<String> items = new ArrayList<>();
            for (int i = lists.getElementStartIndex(row); i < lists.getElementEndIndex(row); i++) {
                items.add(text(inside, i));
            }
            return "[" + String.join(" ", items) + "]";
        }
        return column.getObject(row).toString();
    }
}
