-- A table whose every new row asks for a mail, whoever inserts it.
CREATE FUNCTION order_was_placed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM redisjobs.enqueue(
        'send_confirmation', json_build_object('order_id', NEW.id, 'email', NEW.email), queue => 'mail');
    RETURN NULL;
END $$;
CREATE TRIGGER order_was_placed AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION order_was_placed();
